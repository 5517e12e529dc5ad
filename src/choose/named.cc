#include "choose/named.hpp"

#include <algorithm>
#include <string_view>

#include "choose/situation.hpp"
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

/// Members that have no default, and in which no name of the catalog differs from another: a text must give them.
std::vector<std::string_view> must_be_given(const Description& name) {
  const auto settled = [&](const MemberInfo& member) {
    const std::string own = said(name.spec({}).get(member.name));
    return std::any_of(catalog().begin(), catalog().end(), [&](const Description& other) {
      if (other.encoding != name.encoding || !other.spec) return false;
      const Record spec = other.spec({});
      return &spec.type() == &name.spec({}).type() && said(spec.get(member.name)) != own;
    });
  };
  std::vector<std::string_view> members;
  for (const MemberInfo& member : name.spec({}).type().members) {
    if (member.required && !settled(member)) members.emplace_back(member.name);
  }
  return members;
}

/// The keys of a spec.
std::string keys_of(const Description& name, const Record& spec, const Record& stood_for) {
  std::string keys;
  add_keys(spec, stood_for, must_be_given(name), keys);
  return keys;
}

/// The keys of a rotary spec; the scaling's come first.
std::string keys_of(const Description& name, Rope rope, Rope stood_for, bool at_hand) {
  std::string keys;
  const auto record_of = [](const RopeScaling& scaling) {
    return std::visit([](const auto& of) { return Record::of(of); }, scaling);
  };
  add_keys(record_of(rope.scaling), record_of(stood_for.scaling), {"factor", "trained_length"}, keys);
  rope.scaling = stood_for.scaling = NoScaling{};
  if (rope.rotary_dim == rope.head_dim) rope.rotary_dim = 0;
  if (!at_hand) rope.head_dim = stood_for.head_dim;  // the call's
  std::vector<std::string_view> always = must_be_given(name);
  if (at_hand) always.emplace_back("head_dim");
  add_keys(Record::of(rope), Record::of(stood_for), always, keys);
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
        if constexpr (requires { of.factor; }) of.factor = wanted_stretch(s);
        if constexpr (requires { of.trained_length; }) of.trained_length = along_axis(s, s.trained);
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

std::string text_at_hand(const Situation& s) {
  const Subject& model = *s.from;
  const Description* named = find(model.name);
  if (named == nullptr || !named->spec || !model.description.spec) return model.name;  // a file, or JSON: it says all
  const SpecimenOptions size = size_at_hand(s);
  const Record spec = model.description.spec(size), stood_for = named->spec(size);
  const Rope *rope = spec.as<Rope>(), *other = stood_for.as<Rope>();
  return model.name + (rope != nullptr ? keys_of(*named, *rope, *other, true) : keys_of(*named, spec, stood_for));
}

Named named_by(const Rule& rule, const Situation& s, const std::optional<Rope>& at_hand) {
  if (*rule.encoding == '\0') return {{text_at_hand(s), s.from->description}, at_hand, at_hand};
  const Description* named = description_of(rule, at_hand);
  Named made{{named->name, *named}};
  if (!named->spec) return made;
  const Record spec = named->spec({.heads = s.heads, .dim = s.dim, .length = s.trained});
  const Rope* example = spec.as<Rope>();
  if (example == nullptr) return made.candidate.text += keys_of(*named, spec, spec), made;
  Rope rope = at_hand.value_or(*example);
  // The model's own scaling keeps its other numbers.
  const bool alike = at_hand && at_hand->scaling.index() == example->scaling.index();
  const RopeScaling scaling = scaled_to(alike ? at_hand->scaling : example->scaling, s);
  if (!at_hand && std::holds_alternative<NoScaling>(scaling)) {
    made.candidate.text += keys_of(*named, rope, *example, false);
    return {made.candidate, rope, rope};
  }
  rope.scaling = NoScaling{};
  made.before = made.after = rope;
  made.after->scaling = scaling;
  made.candidate.text += keys_of(*named, *made.after, *example, at_hand.has_value());
  made.candidate.description = with_rope(*named, *made.after);
  return made;
}

}  // namespace bearing::inspect
