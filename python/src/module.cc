// The extension module behind `import bearing`: everything of the C++ interface under the same names.

#include <nanobind/nanobind.h>

#include <bearing/error.hpp>
#include <bearing/target.hpp>
#include <bearing/threads.hpp>
#include <bearing/version.hpp>
#include <string_view>

#include "arrays.hpp"
#include "bind.hpp"
#include "members.hpp"
#include "wrong_calls.hpp"

namespace bearing::python {

nb::object unplain(nb::handle value) {
  if (nb::isinstance<nb::dict>(value)) {
    const auto members = nb::borrow<nb::dict>(value);
    if (!members.contains("type")) throw nb::value_error("[from_dict] a member that is a spec must have a \"type\"");
    const auto name = nb::cast<std::string>(members["type"]);
    const nb::object module = nb::module_::import_("bearing._core");
    if (!nb::hasattr(module, name.c_str()) || !nb::hasattr(module.attr(name.c_str()), "from_dict")) {
      throw nb::value_error(("[from_dict] type: must be a spec of bearing, got " + name).c_str());
    }
    return module.attr(name.c_str()).attr("from_dict")(members);
  }
  return nb::borrow(value);
}

template <class Error>
void bind_error(nb::module_& m, const char* name, const char* doc) {
  const nb::exception<Error> type(m, name, PyExc_ValueError);
  type.attr("__doc__") = doc;
  // A file's name need not be UTF-8, and nanobind's own translator takes nothing else.
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* of) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& error) {
          const std::string_view what = error.what();
          const nb::object text =
              nb::steal(PyUnicode_DecodeUTF8(what.data(), static_cast<Py_ssize_t>(what.size()), "backslashreplace"));
          if (text.is_valid()) PyErr_SetObject(static_cast<PyObject*>(of), text.ptr());
        }
      },
      type.ptr());
}

void bind_errors(nb::module_& m) {
  bind_error<ShapeError>(m, "ShapeError",
                         "The axes of arrays do not fit each other, or a layout cannot be served.\n\n"
                         "The text names the function and the argument. Nothing has been written.");
  bind_error<RangeError>(m, "RangeError",
                         "A number is out of its range: a position without a row, a length, a factor.\n\n"
                         "The text names the function and the argument. Nothing has been written.");
  bind_error<ConfigError>(m, "ConfigError",
                          "A file cannot be read, or does not state what it must.\n\n"
                          "The text names the file, and the line and column or the JSON pointer.");
}

Executor executor_of(Index threads, const char* function) {
  if (threads < 0) {
    throw RangeError(std::string("[") + function + "] threads: must be at least 0 (0 for all), got " +
                     std::to_string(threads));
  }
  return threads == 1 ? Executor{} : bearing::threads(threads);
}

void bind_target(nb::module_& m) {
  m.attr("__version__") = version();
  m.def(
      "simd_target", [] { return std::string(simd_target()); },
      "Names the SIMD instruction set that kernels use: the best that this machine has, or the one that BEARING_TARGET "
      "names.");
  m.def(
      "simd_targets",
      [] {
        nb::list all;
        for (const std::string_view one : simd_targets()) all.append(nb::str(one.data(), one.size()));
        return all;
      },
      nb::sig("def simd_targets() -> list[str]"),
      "Names the SIMD instruction sets that this build holds and this machine can run, best first.\n\n"
      "Every machine of this kind runs the last one: on x86-64 it is the scalar one, on arm64 NEON.");
  m.def(
      "use_simd_target", [](const std::string& name) { use_simd_target(name); }, nb::arg("name"),
      "Makes every later call in this process use the named instruction set, for tests and measurements.\n\n"
      "Raises RangeError for a name that is not in simd_targets().");
}

/// inspect.signature() of functions and methods, which knows none but Python's own.
void add_signatures(const nb::module_& m) {
  const nb::object read = nb::cpp_function(
      [](nb::handle of) { return nb::module_::import_("bearing._signature").attr("of")(of); }, nb::arg("of"));
  const nb::object property = nb::module_::import_("builtins").attr("property")(read);
  const nb::object method = m.attr("Encoding").attr("replace"), maker = m.attr("Rope").attr("from_json");
  const nb::object bound = m.attr("NoPosition")().attr("to_dict");
  for (const nb::handle one : {nb::handle(method), nb::handle(maker), nb::handle(bound)}) {
    PyTypeObject* type = Py_TYPE(one.ptr());
    if (PyDict_GetItemString(type->tp_dict, "__signature__") != nullptr) continue;
    if (PyDict_SetItemString(type->tp_dict, "__signature__", property.ptr()) != 0) throw nb::python_error();
    PyType_Modified(type);
  }
}

/// For the package's own checks.
void bind_numbers(nb::module_& m) {
  m.def(
      "_is_truth_value", [](nb::handle value) { return is_truth_value(value); }, nb::arg("value").none(),
      nb::sig("def _is_truth_value(value: Any) -> bool"),
      "Says whether a value is True or False, also NumPy's or one in an array without axes: no number.");
}

NB_MODULE(_core, m) {
  m.doc() = "Positional encodings for transformers: exact, fast, differentiable.";
  nb::set_leak_warnings(false);  // what a caller keeps until the interpreter ends is no leak, and nothing here prints
  prepare_arrays();
  bind_errors(m);
  bind_target(m);
  bind_numbers(m);
  bind_described(m);
  bind_rope(m);
  bind_row_calls(m);
  bind_scores(m);
  bind_attention(m);
  bind_linear_attention(m);
  bind_io(m);
  bind_files(m);
  bind_gguf(m);
  bind_dialects(m);
#ifdef BEARING_PYTHON_JAX
  bind_jax(m);
#endif
  bind_inspect(m);
  bind_choose(m);
  bind_figures(m);
  add_signatures(m);
  name_wrong_arguments(m);
}

}  // namespace bearing::python
