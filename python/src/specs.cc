#include "specs.hpp"

#include <map>
#include <stdexcept>

#include "classes.hpp"
#include "functions.hpp"
#include "values.hpp"

namespace bearing::python {

namespace {

struct SpecClass {
  const RecordType* type;
  nb::handle made;  // kept as long as the module, which is for ever
};

std::map<std::type_index, SpecClass>& classes() {
  static auto& all = *new std::map<std::type_index, SpecClass>;
  return all;
}

[[noreturn]] void fail(const RecordType& type, const std::string& text) {
  throw nb::type_error(("[" + type.name + "] " + text).c_str());
}

std::string names(const RecordType& type, const char* after = "") {
  std::string all;
  for (const MemberInfo& one : type.members) all += (all.empty() ? "" : ", ") + one.name + after;
  return all;
}

/// "'half' or 'interleaved'", for a member that is one of some words; else its type.
std::string choices(const ValueType& type) {
  std::string all;
  for (std::size_t i = 0; i < type.words.size(); ++i) {
    if (i > 0) all += i + 1 < type.words.size() ? ", " : " or ";
    all += "'" + type.words[i] + "'";
  }
  return all.empty() ? python_type(type) : all;
}

/// From members by name.
Record built(const RecordType& type, const nb::dict& given) {
  Record made = type.make();
  std::size_t used = 0;
  for (const MemberInfo& one : type.members) {
    if (given.contains(one.name.c_str())) {
      ++used;
      made.set(one.name, value_of(given[one.name.c_str()], one.type, {type.name.c_str(), one.name.c_str()}));
    } else if (one.required) {
      fail(type, one.name + ": must be given, " + choices(one.type) + ", as a wrong guess would go unnoticed");
    }
  }
  if (used == given.size()) return made;
  for (auto [key, unused] : given) {
    const auto word = nb::cast<std::string>(key);
    if (type.member(word) == nullptr) fail(type, "has no " + word + "; it has " + names(type));
  }
  return made;
}

nb::object member_of(const Record& record, const MemberInfo& member) { return object_of(record.get(member.name)); }

std::string repr(const Record& record) {
  std::string text = record.type().name + "(";
  for (const MemberInfo& one : record.type().members) {
    if (text.back() != '(') text += ", ";
    text += one.name + "=" + nb::cast<std::string>(nb::repr(member_of(record, one)));
  }
  return text + ")";
}

/// What is hashed in place of all that is equal to it: 0.0 for -0.0, and a rotary_dim of 0 where the whole head turns.
Value hashed(Value value) {
  if (auto* number = std::get_if<double>(&value); number != nullptr && *number == 0) *number = 0;
  if (auto* all = std::get_if<Values>(&value)) {
    for (Value& one : *all) one = hashed(one);
  }
  auto* record = std::get_if<Record>(&value);
  if (record == nullptr || !*record) return value;
  for (const MemberInfo& one : record->type().members) record->set(one.name, hashed(record->get(one.name)));
  if (record->type().member("rotary_dim") != nullptr && record->type().member("head_dim") != nullptr) {
    const auto whole = [&](const char* member) { return std::get<Index>(record->get(member)); };
    if (whole("rotary_dim") == whole("head_dim")) record->set("rotary_dim", Value(Index{0}));
  }
  return value;
}

nb::dict to_dict(const Spec& self) {
  nb::dict all;
  all["type"] = self.record.type().name;
  for (const MemberInfo& one : self.record.type().members) all[one.name.c_str()] = plain(member_of(self.record, one));
  return all;
}

Record from_dict(const RecordType& type, const nb::dict& given) {
  nb::dict members;
  for (auto [key, value] : given) {
    if (nb::cast<std::string>(key) != "type") {
      members[key] = unplain(value);
    } else if (!value.equal(nb::str(type.name.c_str()))) {
      throw nb::value_error(("[" + type.name + ".from_dict] type: must be '" + type.name + "', got " +
                             nb::cast<std::string>(nb::repr(value)))
                                .c_str());
    }
  }
  return built(type, members);
}

std::string constructor_signature(const RecordType& type) {
  std::string text = "def __init__(self";
  if (!type.members.empty()) text += ", *";
  for (const MemberInfo& one : type.members) {
    const auto otherwise = one.required ? std::optional<Value>() : type.otherwise(one);
    text += ", " + signature_of(one.name, one.type, otherwise);
  }
  return text + ") -> None";
}

/// What a member's type is called where it is read: sequences are held as tuples.
std::string held(const ValueType& type) {
  if (type.kind != Kind::list || type.items.size() > 1) return python_type(type);
  return "tuple[" + held(type.items[0]) + ", ...]" + (type.optional ? " | None" : "");
}

void def_members(nb::handle made, const RecordType& type) {
  for (const MemberInfo& one : type.members) {
    def_property(
        made, one.name.c_str(), [&one](const Spec& self) { return member_of(self.record, one); },
        kept("def " + one.name + "(self) -> " + held(one.type)), one.text.c_str());
  }
  for (const ConstantInfo& one : type.constants) nb::setattr(made, one.name.c_str(), object_of(one.value));
  for (const FunctionInfo& one : type.methods) def_function(made, one, FunctionKind::method);
  for (const FunctionInfo& one : type.makers) def_function(made, one, FunctionKind::maker);
}

std::string doc_of(const RecordType& type) {
  std::vector<DocumentedItem> items;
  for (const MemberInfo& one : type.members) items.push_back({one.name, one.text});
  for (const ConstantInfo& one : type.constants) items.push_back({one.name, one.text});
  return with_items(type.text, items);
}

}  // namespace

void check_self(const Record& self, std::span<const std::type_index> types, const char* function) {
  if (std::find(types.begin(), types.end(), self.type().type) != types.end()) return;
  const auto wanted = nb::cast<std::string>(class_of_records(types.front()).attr("__name__"));
  Argument{function, "self"}.fail("a " + wanted, self.type().name);
}

nb::handle class_of_records(std::type_index type) {
  const auto found = classes().find(type);
  if (found == classes().end()) throw std::logic_error("[bearing] spec: must be of a type that is described");
  return found->second.made;
}

const Record* record_of(nb::handle from) {
  return nb::isinstance<Spec>(from) ? &nb::cast<const Spec&>(from).record : nullptr;
}

namespace {

/// An object of the record's class, or of one that Python derived from it.
nb::object object_of_class(nb::handle type, Record record) {
  nb::object made = nb::inst_alloc(type);
  new (nb::inst_ptr<Spec>(made)) Spec{std::move(record)};
  nb::inst_mark_ready(made);
  return made;
}

/// What pickles of specs of derived classes call.
nb::object of_class(nb::handle spec, nb::handle type) {
  const Record* record = record_of(spec);
  if (record == nullptr || PyObject_IsSubclass(type.ptr(), class_of_records(record->type().type).ptr()) != 1) {
    Argument{"_of_class", "type"}.fail("derived from the spec's class", nb::cast<std::string>(nb::repr(type)));
  }
  return object_of_class(type, *record);
}

}  // namespace

nb::object spec_object(Record record) {
  const nb::handle type = class_of_records(record.type().type);
  return object_of_class(type, std::move(record));
}

Said said_by(nb::handle from, const Argument& argument) {
  if (const Record* spec = record_of(from)) return say_encoding(*spec);
  std::string text;
  if (!nb::try_cast(from, text)) {
    constexpr std::size_t longest = 120;  // a config of transformers is some hundred lines long
    const std::string got = nb::cast<std::string>(nb::repr(from));
    if (got.size() <= longest) argument.fail("an encoding's name or spec", got);
    argument.fail("an encoding's name or spec, or '@' with the path of a model's file",
                  "an object of the type " + nb::cast<std::string>(from.type().attr("__name__")));
  }
  return say_encoding(text);
}

nb::object spec_object(std::type_index type, std::any value) {
  class_of_records(type);
  return spec_object(Record(*classes().find(type)->second.type, std::move(value)));
}

void bind_spec(nb::module_& m) {
  nb::class_<Spec> type(
      m, "Spec",
      "What a paper or a config states of an encoding, without its numbers.\n\n"
      "A spec is an immutable value. It can be compared, hashed, printed, and turned into a dictionary and back.");
  type.def(
      "__repr__", [](const Spec& self) { return repr(self.record); }, nb::sig("def __repr__(self) -> str"));
  type.def(
      "__eq__",
      [](const Spec& self, nb::handle other) {
        const Record* record = record_of(other);
        return record != nullptr && self.record == *record;
      },
      nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  type.def(
      "__hash__",
      [](const Spec& self) {
        if (self.hash == -1) {
          const Value same = hashed(self.record);
          self.hash = nb::hash(nb::str(repr(std::get<Record>(same)).c_str()));
        }
        return self.hash;
      },
      nb::sig("def __hash__(self) -> int"));
  type.def("to_dict", to_dict, nb::sig("def to_dict(self) -> dict[str, Any]"),
           "Returns the members in plain Python types that JSON can hold, with the type's name as \"type\".");
  copies_are_itself(type);
  type.def(
      "__reduce__",
      [](nb::handle self) -> nb::tuple {
        const nb::tuple made = made_by("spec", nb::handle(self.type()), nb::object(self.attr("to_dict")()));
        // What a derived class added.
        return nb::hasattr(self, "__dict__") ? nb::make_tuple(made[0], made[1], self.attr("__dict__")) : made;
      },
      nb::sig("def __reduce__(self) -> tuple[Any, ...]"));
  m.def("_of_class", of_class, nb::arg("spec"), nb::arg("type"), nb::sig("def _of_class(spec: Spec, type: Any) -> Any"),
        "Returns the spec as an object of a derived class.");
}

void bind_record(nb::module_& m, const RecordType& type) {
  const nb::object made = make_class(m, nb::type<Spec>(), type.name, doc_of(type));
  classes().insert({type.type, {&type, nb::object(made).release()}});
  def_method(
      made, "__init__",
      [&type](Spec* self, const nb::args& unnamed, const nb::kwargs& given) {
        if (unnamed.size() > 0) {
          fail(type, "takes its members by name, " + type.name + "(" + names(type, "=…") + "), got " +
                         nb::cast<std::string>(nb::repr(unnamed[0])) + " without a name");
        }
        new (self) Spec{built(type, nb::borrow<nb::dict>(given))};
      },
      nb::sig(kept(constructor_signature(type))));
  def_members(made, type);
  nb::cpp_function(
      [&type](const nb::dict& given) { return spec_object(from_dict(type, given)); }, nb::scope(made),
      nb::name("from_dict"), nb::arg("members"),
      nb::sig(kept("def from_dict(members: dict[str, Any]) -> " + type.name)),
      "Makes the spec again from what to_dict() returned.\n\n"
      "Raises TypeError for a member that the spec does not have, ValueError for another spec's \"type\".");
  def_method(
      made, "replace",
      [&type](nb::handle self, const nb::kwargs& given) {
        const Record& record = nb::cast<const Spec&>(self).record;
        nb::dict members;
        for (const MemberInfo& one : type.members) members[one.name.c_str()] = member_of(record, one);
        for (auto [key, value] : given) members[key] = value;
        return object_of_class(self.type(), built(type, members));
      },
      nb::sig(kept("def replace(self, **changes: Any) -> " + type.name)),
      "Returns a copy with some members changed. Raises TypeError for a member that the spec does not have.");
}

}  // namespace bearing::python
