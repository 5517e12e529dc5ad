#include "wrong_calls.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace bearing::python {

namespace {

using Call = vectorcallfunc;

/// The ways in which nanobind calls what it binds: by how many arguments there are, and of which kinds.
constexpr std::size_t most_ways = 8;
std::array<Call, most_ways> ways{};

/// Says an error of nanobind's about arguments in this library's words. Any other error stays as it is.
void name_arguments(nb::handle function, PyObject* const* args, std::size_t count, nb::handle names) {
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return;
  nb::python_error error;
  std::string text = nb::cast<std::string>(nb::str(error.value()));
  if (text.find("(): incompatible function arguments.") == std::string::npos) return error.restore();
  try {
    nb::list given;
    nb::dict named;
    for (std::size_t i = 0; i < count; ++i) given.append(nb::handle(args[i]));
    for (std::size_t i = 0; names.is_valid() && i < nb::len(names); ++i) named[names[i]] = nb::handle(args[count + i]);
    const nb::object said = nb::module_::import_("bearing._signature").attr("wrong_call")(function, given, named);
    text = nb::cast<std::string>(said);
  } catch (nb::python_error&) {  // nanobind's own words will do
    return error.restore();
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
}

template <std::size_t Way>
PyObject* called(PyObject* function, PyObject* const* args, std::size_t flags, PyObject* names) {
  PyObject* result = ways[Way](function, args, flags, names);
  if (result != nullptr) return result;
  // The highest bits say more of a call than how many arguments it has.
  name_arguments(function, args, static_cast<std::uint32_t>(flags), names);
  return nullptr;
}

template <std::size_t... Way>
constexpr std::array<Call, most_ways> calls(std::index_sequence<Way...>) {
  return {called<Way>...};
}

void change(nb::handle function) {
  Call& own =
      *reinterpret_cast<Call*>(reinterpret_cast<char*>(function.ptr()) + Py_TYPE(function.ptr())->tp_vectorcall_offset);
  static constexpr std::array<Call, most_ways> changed = calls(std::make_index_sequence<most_ways>());
  if (std::find(changed.begin(), changed.end(), own) != changed.end()) return;
  const auto way = std::find_if(ways.begin(), ways.end(), [&](Call one) { return one == nullptr || one == own; });
  if (way == ways.end()) throw std::logic_error("[bearing] nanobind: must have at most 8 ways to call a function");
  *way = own;
  own = changed[static_cast<std::size_t>(way - ways.begin())];
}

bool is_of_nanobind(nb::handle object) {
  const auto name = nb::cast<std::string>(nb::handle(object.type()).attr("__name__"));
  return name == "nb_func" || name == "nb_method";
}

}  // namespace

void name_wrong_arguments(const nb::module_& m) {
  const auto each = [](nb::handle members, const auto& body) {
    for (nb::handle one : nb::list(members.attr("values")())) body(one);
  };
  each(m.attr("__dict__"), [&](nb::handle one) {
    if (is_of_nanobind(one)) change(one);
    if (!PyType_Check(one.ptr())) return;
    each(one.attr("__dict__"), [](nb::handle member) {
      if (is_of_nanobind(member)) change(member);
    });
  });
}

}  // namespace bearing::python
