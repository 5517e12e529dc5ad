#include "config_given.hpp"

#include <nanobind/stl/string.h>

#include "memory.hpp"

namespace bearing::python {

namespace nb = nanobind;

std::string path_of(nb::handle path) {
  const auto bytes = nb::cast<nb::bytes>(nb::module_::import_("os").attr("fsencode")(path));
  return {bytes.c_str(), bytes.size()};
}

ConfigGiven config_given(nb::handle config, const char* function) {
  if (nb::isinstance<nb::str>(config) || nb::isinstance<nb::bytes>(config) || nb::hasattr(config, "__fspath__")) {
    return {true, path_of(config), {}};
  }
  nb::object members = nb::borrow(config);
  std::string name = "config";
  if (!nb::isinstance<nb::type_object>(config) && nb::hasattr(config, "to_dict")) {
    name = nb::cast<std::string>(nb::handle(config.type()).attr("__name__"));
    members = config.attr("to_dict")();
  }
  if (!nb::isinstance<nb::dict>(members)) {
    Argument{function, "config"}.fail("a path, a dictionary or a transformers config",
                                      nb::cast<std::string>(nb::repr(config)));
  }
  // What is no JSON (a torch.dtype, say) has nothing to do with positions.
  const nb::module_ builtins = nb::module_::import_("builtins");
  return {false, name,
          nb::cast<std::string>(
              nb::module_::import_("json").attr("dumps")(members, nb::arg("default") = builtins.attr("str")))};
}

}  // namespace bearing::python
