#include "functions.hpp"

#include "calls.hpp"
#include "specs.hpp"
#include "unlocked.hpp"
#include "values.hpp"

namespace bearing::python {

namespace {

/// What all calls of a function share; kept as long as the module, which is for ever.
struct Called {
  const FunctionInfo& info;
  FunctionKind kind;
  bool others_follow;
  std::vector<const char*> names;  ///< without self
  std::size_t unnamed = 0;         ///< arguments that may be given without a name

  Called(const FunctionInfo& function, FunctionKind how, bool others)
      : info(function), kind(how), others_follow(others) {
    for (std::size_t i = first(); i < info.arguments.size(); ++i) {
      names.push_back(info.arguments[i].name.c_str());
      if (!info.arguments[i].by_name) ++unnamed;
    }
  }
  /// Self is no argument of a call.
  std::size_t first() const { return kind == FunctionKind::method ? 1 : 0; }

  std::string signature() const {
    std::string text = "def " + info.name + "(", between = "";
    if (kind == FunctionKind::method) text += "self", between = ", ";
    for (std::size_t i = first(); i < info.arguments.size(); ++i) {
      const ArgumentInfo& one = info.arguments[i];
      if (one.by_name && (i == 0 || !info.arguments[i - 1].by_name)) text += between + "*", between = ", ";
      const auto nothing = one.type.optional ? std::optional<Value>(Value{}) : std::nullopt;
      text += between + signature_of(one.name, one.type, one.otherwise ? one.otherwise : nothing);
      between = ", ";
    }
    return text + ") -> " + result_type(info);
  }

  nb::object operator()(const Record* self, const nb::args& args, const nb::kwargs& given) const {
    if (others_follow && !first_fits(args, given)) throw nb::next_overload();
    const std::vector<GivenArgument> all = arguments_of(info.name.c_str(), names, args, given, unnamed);
    Values values;
    if (self != nullptr) {
      check_self(*self, info.arguments[0].type.records, info.name.c_str());
      values.emplace_back(*self);
    }
    std::optional<Array> first;  // of the arrays
    for (const auto& [name, value, by_caller] : all) {
      const ArgumentInfo& asked = info.arguments[values.size()];
      const Place at{info.name.c_str(), name};
      if (value.is_none() && !asked.type.optional) {
        if (!asked.otherwise) Argument{at.owner, name}.fail("given", "None");
        values.push_back(*asked.otherwise);
        continue;
      }
      values.push_back(value_of(value, asked.type, at));
      if (asked.type.kind != Kind::tensor || value.is_none()) continue;
      Array array(value, {at.owner, name});
      if (first) check_same_type(array, *first, first->argument().name);
      if (!first) first.emplace(std::move(array));
    }
    const Value result = [&] {
      const Unlocked released;
      return info.call(values);
    }();
    const nb::object object = object_of(result, first ? first->kind() : ArrayKind::numpy);
    return result_type(info).starts_with("list[") ? nb::object(nb::list(object)) : object;
  }

 private:
  bool first_fits(const nb::args& args, const nb::kwargs& given) const {
    const std::vector<std::type_index>& types = info.arguments[0].type.records;
    const nb::object value = args.size() > 0            ? nb::object(args[0])
                             : given.contains(names[0]) ? nb::object(given[names[0]])
                                                        : nb::none();
    const Record* record = record_of(value);
    return record != nullptr && std::find(types.begin(), types.end(), record->type().type) != types.end();
  }
};

}  // namespace

std::vector<GivenArgument> arguments_of(const char* function, std::span<const char* const> names, const nb::args& args,
                                        const nb::kwargs& given, std::size_t unnamed) {
  const auto fail = [&](const std::string& text) {
    throw nb::type_error((std::string("[") + function + "] " + text).c_str());
  };
  std::vector<GivenArgument> all;
  std::string list;
  for (const char* one : names) {
    if (all.size() == unnamed) list += list.empty() ? "*" : ", *";
    all.push_back({one, nb::none()});
    list += (list.empty() ? "" : ", ") + std::string(one);
  }
  if (args.size() > std::min(names.size(), unnamed)) {
    fail("takes (" + list + "), got " + std::to_string(args.size()) + " arguments");
  }
  for (std::size_t i = 0; i < args.size(); ++i) all[i] = {all[i].name, nb::borrow(args[i]), true};
  for (auto [key, value] : given) {
    const auto word = nb::cast<std::string>(key);
    std::size_t i = 0;
    while (i < names.size() && word != names[i]) ++i;
    if (i == names.size()) fail("has no argument " + word + "; it takes (" + list + ")");
    if (i < args.size()) fail("got its argument " + word + " twice");
    all[i] = {all[i].name, nb::borrow(value), true};
  }
  return all;
}

void def_function(nb::handle scope, const FunctionInfo& info, FunctionKind kind, bool others_follow) {
  const auto& called = *new Called(info, kind, others_follow);
  const char* signature = kept(called.signature());
  if (kind == FunctionKind::method) {
    nb::cpp_function([&called](const Spec& self, const nb::args& args,
                               const nb::kwargs& given) { return called(&self.record, args, given); },
                     nb::scope(scope), nb::name(info.name.c_str()), nb::is_method(), nb::sig(signature),
                     info.text.c_str());
  } else {
    nb::cpp_function([&called](const nb::args& args, const nb::kwargs& given) { return called(nullptr, args, given); },
                     nb::scope(scope), nb::name(info.name.c_str()), nb::sig(signature), info.text.c_str());
  }
}

}  // namespace bearing::python
