#include <algorithm>
#include <bearing/io.hpp>
#include <bearing/say.hpp>
#include <utility>

#include "lasting.hpp"
#include "record_json.hpp"
#include "say_values.hpp"

namespace bearing {
namespace {

bool same(const Value& a, const Value& b) { return json::text_of(a) == json::text_of(b); }

inspect::SpecimenOptions size_of(const Sizes& sizes) {
  inspect::SpecimenOptions size;
  if (sizes.heads > 0) size.heads = sizes.heads;
  if (sizes.dim > 0) size.dim = sizes.dim;
  if (sizes.length > 0) size.length = sizes.length;
  return size;
}

/// The size of a model that members of that name are; null: none.
Index Sizes::*size_called(const std::string& name) {
  if (name == "heads") return &Sizes::heads;
  return name == "dim" || name == "head_dim" ? &Sizes::dim : nullptr;
}

/// The members that are the call's, where they have no default.
void fill_sizes(Record& record, const Sizes& sizes) {
  for (const MemberInfo& member : record.type().members) {
    Value value = record.get(member.name);
    const auto which = size_called(member.name);
    const Index size = which == nullptr ? 0 : sizes.*which;
    if (size > 0 && same(value, Index{0})) record.set(member.name, size);
    if (Record* inner = std::get_if<Record>(&value); inner != nullptr && *inner) {
      fill_sizes(*inner, sizes);
      record.set(member.name, *inner);
    }
  }
}

void add_keys_of(const Record& record, std::vector<std::string>& to) {
  for (const MemberInfo& member : record.type().members) {
    if (std::find(to.begin(), to.end(), member.name) == to.end()) to.push_back(member.name);
    const Value value = record.get(member.name);
    if (const Record* inner = std::get_if<Record>(&value); inner != nullptr && *inner) add_keys_of(*inner, to);
  }
}

}  // namespace

std::optional<Value> stands_for(const Description& name, const MemberInfo& member,
                                const inspect::SpecimenOptions& size) {
  const Record own = name.spec(size);
  const Value value = own.get(member.name);
  const Record* record = std::get_if<Record>(&value);
  for (const Description& other : inspect::catalog()) {
    if (other.encoding != name.encoding || name.encoding == nullptr || &other == &name || !other.spec) continue;
    const Record theirs = other.spec(size);
    if (&theirs.type() != &own.type()) continue;
    const Value their_value = theirs.get(member.name);
    const Record* their_record = std::get_if<Record>(&their_value);
    if (record != nullptr && their_record != nullptr && &record->type() != &their_record->type()) {
      return record->type().make();
    }
    if (record == nullptr || &record->type() == &their_record->type()) {
      if (!same(value, their_value)) return value;
    }
  }
  return {};
}

std::vector<std::string> keys_of(const Record& spec) {
  std::vector<std::string> keys;
  if (spec) add_keys_of(spec, keys);
  return keys;
}

bool set_member(Record& spec, const std::string& name, const Value& value) {
  if (spec.type().member(name) != nullptr) return spec.set(name, value), true;
  for (const MemberInfo& member : spec.type().members) {
    Value of = spec.get(member.name);
    Record* inner = std::get_if<Record>(&of);
    if (inner != nullptr && *inner && set_member(*inner, name, value)) return spec.set(member.name, *inner), true;
  }
  return false;
}

namespace {

/// How many heads the text has numbers for: where a parameter has one for each head, and the text lists them (slopes);
/// else 0.
Index heads_of(Said said) {
  const Record spec = said.example({});
  for (const ParameterInfo* parameter : said.description().parameters()) {
    const std::vector<Extent>& extents = parameter->extents;
    if (extents.size() != 1 || extents[0].name != "heads" || !said.gives(parameter->name)) continue;
    if (!spec || spec.type().member(parameter->name) == nullptr) continue;
    const Value value = spec.get(parameter->name);
    if (const auto* list = std::get_if<Values>(&value)) return std::ssize(*list);
  }
  return 0;
}

}  // namespace

std::string Said::shown() const { return inspect::find(text_) != nullptr ? description_->name : text_; }

Sizes Said::sizes() const {
  Sizes all = sizes_;
  if (all.heads == 0 && (spec_ || !keys_.empty())) all.heads = heads_of(*this);
  if (sizes_.heads > 0 || sizes_.dim > 0) return all;
  const auto read = [&](const auto& self, const Record& record) -> void {
    for (const MemberInfo& member : record.type().members) {
      const Value value = record.get(member.name);
      if (const Record* inner = std::get_if<Record>(&value); inner != nullptr && *inner) self(self, *inner);
      const auto which = member.name == "length" ? &Sizes::length : size_called(member.name);
      const bool ours = spec_ || gives(member.name);
      if (which == nullptr || !ours || !same(member.get(record.type().initial), Index{0})) continue;
      all.*which = std::get<Index>(value);
    }
  };
  if (const Record record = Said(*this).example({})) read(read, record);
  return all;
}

void Said::check_extents(const Record& spec) const {
  if (!spec) return;
  for (const MemberInfo& member : spec.type().members) {
    const Value value = spec.get(member.name);
    if (const Record* inner = std::get_if<Record>(&value); inner != nullptr && *inner) check_extents(*inner);
    const Index* dim = size_called(member.name) == &Sizes::dim ? std::get_if<Index>(&value) : nullptr;
    if (dim == nullptr || *dim <= largest_own_dim) continue;
    const std::string what = member.name + " must be at most " + std::to_string(largest_own_dim) +
                             " where an example is made, got " + std::to_string(*dim);
    if (text_.starts_with('@')) throw ConfigError(text_.substr(1) + ": " + what);
    throw RangeError("[encoding] " + description_->name + ": " + what);
  }
}

void Said::fail(const std::string& what) const {
  throw ShapeError("[encoding] " + (text_.starts_with('@') ? text_ : description_->name) + ": " + what);
}

void Said::add_keys(std::string_view text) {
  while (true) {
    const std::size_t comma = text.find(','), equals = text.find('=');
    if (equals == 0 || equals >= std::min(comma, text.size())) {
      fail("must be followed by KEY=VALUE,KEY=VALUE,..., got '" + std::string(text.substr(0, comma)) + "'");
    }
    const std::string key(text.substr(0, equals));
    if (gives(key)) fail(key + " is there twice");
    const std::string_view value = text.substr(equals + 1, comma == text.npos ? comma : comma - equals - 1);
    if (value.empty()) fail(key + ": must not be empty");
    keys_.push_back({key, std::string(value)});
    if (comma == text.npos) return;
    text.remove_prefix(comma + 1);
  }
}

bool Said::gives(std::string_view member) const {
  if (spec_ && spec_.type().member(member) != nullptr) return true;
  return std::any_of(keys_.begin(), keys_.end(), [&](const Key& key) { return key.name == member; });
}

std::optional<std::string> Said::take(const std::string& key) {
  known_.push_back(key);
  for (Key& one : keys_) {
    if (one.name == key) return one.used = one.taken = true, one.text;
  }
  return {};
}

Value Said::take(const std::string& key, const ValueType& type, const Value& otherwise) {
  known_.push_back(key);
  for (Key& one : keys_) {
    if (one.name != key) continue;
    one.used = true;
    say::Parsed parsed = say::parse_value(one.text, type);
    if (!parsed.wanted.empty()) fail(key + ": must be " + parsed.wanted + ", got '" + one.text + "'");
    return std::move(parsed.value);
  }
  return otherwise;
}

void Said::apply(Record& to) {
  // Records first: what is in them may be said too.
  for (const bool records : {true, false}) {
    for (Key& key : keys_) {
      const MemberInfo* member = to.type().member(key.name);
      if (key.taken || (member != nullptr && member->type.kind == Kind::record) != records) continue;
      const ValueType* type = say::type_of_member(to, key.name);
      if (type == nullptr) continue;
      const say::Parsed parsed = say::parse_value(key.text, *type);
      if (!parsed.wanted.empty()) fail(key.name + ": must be " + parsed.wanted + ", got '" + key.text + "'");
      set_member(to, key.name, parsed.value);
      key.used = true;
    }
  }
  for (std::string& key : keys_of(to)) known_.push_back(std::move(key));
}

Record Said::example(const inspect::SpecimenOptions& size) {
  Record spec = spec_ || !description_->spec ? spec_ : description_->spec(size);
  if (!spec) return spec;
  // A model's length is an example's: measuring looks at several.
  const bool has_length = spec_ && sizes_.length > 0 && spec.type().member("length") != nullptr;
  if (has_length && same(spec.get("length"), sizes_.length)) spec.set("length", size.length);
  apply(spec);
  fill_sizes(spec, {.heads = size.heads, .dim = size.dim});
  return spec;
}

Description Said::as_description() const {
  Said said = *this;
  check_extents(said.example({}));
  said.finish();
  Description made = *description_;
  if (!said.spec_ && said.keys_.empty()) return made;
  made.spec = [said](const inspect::SpecimenOptions& size) { return Said(said).example(size); };
  made.specimen = [said, of = description_](const inspect::SpecimenOptions& size, const Record& spec) {
    inspect::Specimen specimen = inspect::make(*of, size, spec ? spec : Said(said).example(size));
    const RopeLengths& lengths = said.lengths_;
    if (!specimen.is_image()) return specimen;
    if (size.length == lengths.grid.height * lengths.grid.width) specimen.grid = lengths.grid;
    specimen.span = lengths.span;
    return specimen;
  };
  return made;
}

Record Said::complete(const Sizes& call) {
  const inspect::SpecimenOptions size = size_of(call);
  if (spec_ || !description_->spec) {
    Record spec = spec_;
    const EncodingInfo* info = description_->encoding;
    if (!spec && info != nullptr && !info->specs.empty()) {  // one that may be left out: its keys ask for it
      const Record made = info->specs[0]->make();
      const auto asks = [&](const Key& key) { return !key.used && made.type().member(key.name) != nullptr; };
      if (std::any_of(keys_.begin(), keys_.end(), asks)) spec = made;
    }
    if (spec) apply(spec), fill_sizes(spec, call);
    return spec;
  }
  Record spec = description_->spec(size).type().make();
  std::vector<std::string> settled;
  for (const MemberInfo& member : spec.type().members) {
    auto value = stands_for(*description_, member, size);
    // A list is as long as the model has heads, or the like: nobody has a default for it.
    if (!value && same(spec.get(member.name), Values{})) value = description_->spec(size).get(member.name);
    if (!value) continue;
    spec.set(member.name, *value);
    settled.push_back(member.name);
  }
  apply(spec);
  // A record that must say something may stand within the spec.
  const auto check = [&](const auto& self, const Record& record) -> void {
    for (const MemberInfo& member : record.type().members) {
      const bool said = gives(member.name) || std::find(settled.begin(), settled.end(), member.name) != settled.end();
      if (member.required && !said) {
        std::string words;
        for (const std::string& word : member.type.words) words += (words.empty() ? "" : " or ") + word;
        fail(member.name + " must be given, there is no default: " + (words.empty() ? member.text : words));
      }
      const Value value = record.get(member.name);
      if (const Record* inner = std::get_if<Record>(&value); inner != nullptr && *inner) self(self, *inner);
    }
  };
  check(check, spec);
  fill_sizes(spec, call);
  return spec;
}

void Said::finish() const {
  for (const Key& key : keys_) {
    if (key.used) continue;
    std::vector<std::string> keys;  // each once
    for (const std::string& known : known_) {
      if (std::find(keys.begin(), keys.end(), known) == keys.end()) keys.push_back(known);
    }
    const std::string meant = closest(key.name, keys);
    std::string list;
    for (const std::string& one : keys) list += (list.empty() ? "" : ", ") + one;
    fail("'" + key.name + "' is not a key" + (meant.empty() ? "" : "; did you mean '" + meant + "'?") +
         (meant.empty() ? "; it takes " : " It takes ") + (list.empty() ? "none" : list));
  }
}

Said say_encoding(const Record& spec) {
  const Description* description = description_of(spec);
  if (description == nullptr) throw ConfigError("[encoding] " + spec.type().name + " is no encoding by itself");
  return {description->name, *description, spec};
}

inspect::Subject subject_of(const Said& said) {
  return {said.shown(), said.as_description(), said.lengths(), said.sizes(), said.task()};
}

inspect::SpecimenOptions example_size(const Sizes& asked, const Sizes& said) {
  inspect::SpecimenOptions size;
  const auto set = [](Index& to, Index asked_for, Index given, Index most) {
    if (asked_for > 0 || given > 0) to = asked_for > 0 ? asked_for : std::min(given, most);
  };
  set(size.heads, asked.heads, said.heads, largest_example.heads);
  set(size.dim, asked.dim, said.dim, largest_own_dim);
  set(size.length, asked.length, said.length, largest_example.length);
  return size;
}

inspect::SpecimenOptions measured_size(const Description& description, const Sizes& asked, const Sizes& said) {
  constexpr Index most = Index{1} << 24;  // what a measurement takes: inspect::check()
  inspect::SpecimenOptions size = example_size(asked, said);
  if (said.heads == 0 && said.dim == 0) return size;
  const EncodingInfo* info = description.encoding;
  const bool heads_alike = info != nullptr && !info->scores && !info->values && info->parameters.empty();
  if (heads_alike && asked.heads == 0) size.heads = std::clamp<Index>(most / (size.dim * size.length), 1, size.heads);
  if (asked.length == 0) size.length = std::clamp<Index>(most / (size.dim * size.heads), 1, size.length);
  return size;
}

namespace {

/// A name whose specs are of the type, and what it stands for: the members that are its own.
struct Name {
  const Description* description;
  const RecordType* type;
  std::vector<std::pair<const MemberInfo*, Value>> own;
};

std::vector<Name> names_of_specs() {
  std::vector<Name> all;
  for (const Description& one : inspect::catalog()) {
    if (!one.spec || (one.encoding != nullptr && one.encoding->turns_values)) continue;  // a Rope alone turns rows
    Name name{&one, &one.spec({}).type(), {}};
    for (const MemberInfo& member : name.type->members) {
      if (auto value = stands_for(one, member, {})) name.own.emplace_back(&member, *std::move(value));
    }
    all.push_back(std::move(name));
  }
  return all;
}

}  // namespace

const Description* description_of(const Record& spec) {
  static const auto& names = lasting(names_of_specs());
  const Description* best = nullptr;
  std::size_t most = 0;
  for (const Name& name : names) {
    if (name.type != &spec.type()) continue;
    std::size_t alike = 1;
    for (const auto& [member, value] : name.own) {
      const Value own = spec.get(member->name);
      const Record* record = std::get_if<Record>(&value);
      const Record* mine = std::get_if<Record>(&own);
      alike += record != nullptr && mine != nullptr ? &record->type() == &mine->type() : same(value, own);
    }
    if (alike > most) best = name.description, most = alike;
  }
  return best;
}

}  // namespace bearing
