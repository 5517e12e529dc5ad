#include <algorithm>

#include "encoding_parameters.hpp"
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

}  // namespace

template <class A>
void read_described(Said& said, const CallShape& call, CallEncodings<A>& into) {
  const EncodingInfo& info = *said.description().encoding;
  if (!info.rows && !info.scores && !info.values) {
    said.fail("acts on the input: add it to what queries, keys and values are projected from");
  }
  ParameterReader<A> read(said, call, into);
  for (const ParameterInfo& parameter : info.parameters) read.ask_for(parameter);
  std::vector<std::string> given;
  Record settings = info.settings == nullptr ? Record{} : settings_of(said, info, call, given);
  Record spec = said.complete(read.sizes());
  said.finish();
  const auto said_by_file = [&](const ParameterInfo& one) {
    return read.has_file(one) && spec && spec.type().member(one.name) != nullptr;
  };
  if (info.spec_optional && std::any_of(info.parameters.begin(), info.parameters.end(), said_by_file)) spec = {};
  std::vector<ParameterMemory> parameters;
  for (const ParameterInfo& parameter : info.parameters) {
    const bool wanted = !parameter.wanted || parameter.wanted(spec);
    const bool optional = info.spec_optional && spec ? true : parameter.optional && !parameter.wanted;
    parameters.push_back(wanted ? read.memory(parameter, spec, optional) : ParameterMemory{});
  }
  const Index sets = read.met("sets");
  if (info.grouped && sets > 0 && std::find(given.begin(), given.end(), "group") == given.end()) {
    settings.set("group", std::max<Index>(1, call.heads / sets));
  }
  if (info.softmax_scale) {
    into.own_scales.emplace_back(said.description().name, info.softmax_scale(spec, std::max<Index>(call.dim, 1)));
  }
  const Made<A> made = info.make<A>()(spec, settings, parameters);
  into.objects.push_back(made.encoding);
  add_term(into, made.term.value());
}

template void read_described(Said&, const CallShape&, CallEncodings<double>&);
template void read_described(Said&, const CallShape&, CallEncodings<float>&);

}  // namespace bearing::tool
