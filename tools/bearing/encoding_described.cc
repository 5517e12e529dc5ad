#include <algorithm>
#include <iterator>

#include "encoding_computed.hpp"
#include "errors.hpp"

// An encoding and its parameters: what they are called, which extents they have and what these depend on, the
// description says.

namespace bearing::tool {
namespace {

/// What the constructor takes beside spec and parameters; as the text says, else as the call has it.
Record settings_of(Said& said, const EncodingInfo& info, const CallShape& call, std::vector<std::string>& given) {
  Record settings = info.settings->make();
  for (const MemberInfo& member : info.settings->members) {
    if (said.gives(member.name)) given.push_back(member.name);
    Value value = member.get(settings.value());
    if (member.name == "past") value = std::max<Index>(0, call.k_len - call.q_len);
    settings.set(member.name, said.take(member.name, member.type, value));
  }
  return settings;
}

/// Other terms of the same model, of which the text gives a parameter.
std::vector<const EncodingInfo*> terms_beside(const Said& said) {
  std::vector<const EncodingInfo*> given;
  std::ranges::copy_if(said.description().beside, std::back_inserter(given), [&](const EncodingInfo* info) {
    return std::ranges::any_of(info->parameters, [&](const auto& parameter) { return said.gives(parameter.name); });
  });
  return given;
}

template <class A>
void act(const EncodingInfo& info, const Record& spec, const Record& settings,
         const std::vector<ParameterMemory>& parameters, CallEncodings<A>& into) {
  const Made<A> made = info.make<A>()(spec, settings, parameters);
  into.objects.push_back(made.encoding);
  add_term(into, made.term.value());
}

}  // namespace

template <class A>
void read_described(Said& said, const CallShape& call, CallEncodings<A>& into) {
  const ComputedInfo* computed = computed_of(said);
  const EncodingInfo& info = computed == nullptr ? *said.description().encoding : *computed->encoding;
  if (!info.rows && !info.scores && !info.values) {
    said.fail("acts on the input: add it to what queries, keys and values are projected from");
  }
  ParameterReader<A> read(said, call, into);
  const auto is_computed = [&](const ParameterInfo& one) { return computed != nullptr && one.name == computed->gives; };
  for (const ParameterInfo& parameter : info.parameters) {
    read.ask_for(is_computed(parameter) ? std::span(computed->from) : std::span(&parameter, 1));
  }
  const std::vector<const EncodingInfo*> beside = terms_beside(said);
  for (const EncodingInfo* term : beside) read.ask_for(term->parameters);
  std::vector<std::string> given;
  Record settings = info.settings == nullptr ? Record{} : settings_of(said, info, call, given);
  Record spec = said.complete(read.sizes());
  said.finish();
  const auto said_by_file = [&](const ParameterInfo& one) {
    return read.has_file(one) && spec && spec.type().member(one.name) != nullptr;
  };
  if (info.spec_optional && std::any_of(info.parameters.begin(), info.parameters.end(), said_by_file)) spec = {};
  const ParameterMemory numbers =
      computed == nullptr ? ParameterMemory{} : compute(said, call, *computed, read, spec, into);
  std::vector<ParameterMemory> parameters;
  for (const ParameterInfo& parameter : info.parameters) {
    const bool wanted = !parameter.wanted || parameter.wanted(spec);
    if (!wanted && (read.has_file(parameter) || said.gives("d_" + parameter.name))) {
      said.fail(parameter.name + ": must be left out, as the spec has no use for it");
    }
    const bool optional = info.spec_optional && spec ? true : parameter.optional && !parameter.wanted;
    parameters.push_back(is_computed(parameter) ? numbers
                         : wanted               ? read.memory(parameter, spec, optional)
                                                : ParameterMemory{});
  }
  const Index sets = read.met("sets");
  if (info.grouped && sets > 0 && std::find(given.begin(), given.end(), "group") == given.end()) {
    settings.set("group", std::max<Index>(1, call.heads / sets));
  }
  if (info.softmax_scale) {
    into.own_scales.emplace_back(said.description().name, info.softmax_scale(spec, std::max<Index>(call.dim, 1)));
  }
  act(info, spec, settings, parameters, into);
  for (const EncodingInfo* term : beside) {
    std::vector<ParameterMemory> of_term;
    Record none;
    for (const ParameterInfo& parameter : term->parameters) of_term.push_back(read.memory(parameter, none));
    act(*term, none, {}, of_term, into);
  }
}

template void read_described(Said&, const CallShape&, CallEncodings<double>&);
template void read_described(Said&, const CallShape&, CallEncodings<float>&);

}  // namespace bearing::tool
