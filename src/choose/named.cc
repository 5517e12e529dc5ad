#include "choose/named.hpp"

#include <algorithm>
#include <string_view>

#include "text.hpp"

namespace bearing::inspect {

using text::concat;

namespace {

/// A value as text after KEY=, which say_encoding() reads.
std::string said(const Value& value) {
  return std::visit(
      [](const auto& of) -> std::string {
        using Of = std::decay_t<decltype(of)>;
        if constexpr (std::is_same_v<Of, bool>) {
          return of ? "true" : "false";
        } else if constexpr (std::is_same_v<Of, double>) {
          const auto whole = static_cast<Index>(of);
          return static_cast<double>(whole) == of ? concat(whole) : concat(of);
        } else if constexpr (std::is_same_v<Of, Index> || std::is_same_v<Of, std::string>) {
          return concat(of);
        } else if constexpr (std::is_same_v<Of, Values>) {
          std::string list;
          for (const Value& one : of) list += concat(list.empty() ? "" : ":", said(one));
          return list;
        } else {
          return "";
        }
      },
      static_cast<const Value::variant&>(value));
}

/// Adds the members of a spec that differ from what a name stands for, as keys; and those that `always` names.
void add_keys(const Record& spec, const Record& stood_for, const std::vector<std::string_view>& always,
              std::string& keys) {
  for (const MemberInfo& member : spec.type().members) {
    const Value value = spec.get(member.name), other = stood_for.get(member.name);
    if (const Record* inner = std::get_if<Record>(&value)) {
      const Record* theirs = std::get_if<Record>(&other);
      const bool alike = theirs != nullptr && *theirs && &theirs->type() == &inner->type();
      if (*inner) add_keys(*inner, alike ? *theirs : inner->type().make(), always, keys);
      continue;
    }
    const bool given = std::find(always.begin(), always.end(), member.name) != always.end();
    if (!given && said(value) == said(other)) continue;
    keys += concat(keys.empty() ? ":" : ",", member.name, "=", said(value));
  }
}

/// The keys of a rotary spec; the scaling's come first.
std::string keys_of(Rope rope, Rope stood_for, bool at_hand) {
  std::string keys;
  const auto record_of = [](const RopeScaling& scaling) {
    return std::visit([](const auto& of) { return Record::of(of); }, scaling);
  };
  add_keys(record_of(rope.scaling), record_of(stood_for.scaling), {"factor", "trained_length"}, keys);
  rope.scaling = stood_for.scaling = NoScaling{};
  if (rope.rotary_dim == rope.head_dim) rope.rotary_dim = 0;
  if (!at_hand) rope.head_dim = stood_for.head_dim;  // the call's
  add_keys(Record::of(rope), Record::of(stood_for),
           at_hand ? std::vector<std::string_view>{"head_dim"} : std::vector<std::string_view>{}, keys);
  return keys;
}

/// A description whose examples have that spec.
Description with_rope(const Description& named, const Rope& rope) {
  Description made = named;
  made.spec = [rope](const SpecimenOptions& size) {
    Rope of = rope;
    of.head_dim = size.dim;
    return Record::of(of);
  };
  made.specimen = [named = &named, spec = made.spec](const SpecimenOptions& size, const Record& given) {
    return make(*named, size, given ? given : spec(size));
  };
  return made;
}

/// A scaling at the situation's lengths.
RopeScaling scaled_to(RopeScaling scaling, const Situation& s) {
  std::visit(
      [&](auto& of) {
        if constexpr (requires { of.factor; })
          of.factor = static_cast<double>(s.wanted) / static_cast<double>(s.trained);
        if constexpr (requires { of.trained_length; }) of.trained_length = s.trained;
      },
      scaling);
  return scaling;
}

/// The rule's name; DeepSeek's YaRN for YaRN, where the model has that.
const Description* description_of(const Rule& rule, const std::optional<Rope>& at_hand) {
  const bool deepseek = at_hand && std::holds_alternative<DeepseekYarnScaling>(at_hand->scaling);
  return find(deepseek && std::string_view(rule.encoding) == "rope_yarn" ? "rope_deepseek_yarn" : rule.encoding);
}

}  // namespace

Named named_by(const Rule& rule, const Situation& s, const std::optional<Rope>& at_hand) {
  if (*rule.encoding == '\0') return {{s.from->name, s.from->description}, at_hand, at_hand};
  const Description* named = description_of(rule, at_hand);
  Named made{{named->name, *named}};
  if (!named->spec) return made;
  const Record spec = named->spec({.heads = s.heads, .dim = s.dim, .length = s.trained});
  const Rope* example = spec.as<Rope>();
  if (example == nullptr) return made;
  Rope rope = at_hand.value_or(*example);
  // The model's own scaling keeps its other numbers.
  const bool alike = at_hand && at_hand->scaling.index() == example->scaling.index();
  const RopeScaling scaling = scaled_to(alike ? at_hand->scaling : example->scaling, s);
  if (!at_hand && std::holds_alternative<NoScaling>(scaling)) return {made.candidate, rope, rope};
  rope.scaling = NoScaling{};
  made.before = made.after = rope;
  made.after->scaling = scaling;
  made.candidate.text += keys_of(*made.after, *example, at_hand.has_value());
  made.candidate.description = with_rope(*named, *made.after);
  return made;
}

}  // namespace bearing::inspect
