#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace bearing::python {

/// The bytes of a path: of a string, as os.fsencode makes them, of bytes or of an os.PathLike.
std::string path_of(nanobind::handle path);

/// A model's config as Python gives it: a path, or the text of a dictionary or of a config of transformers.
struct ConfigGiven {
  bool is_path = false;
  std::string path;  ///< or what messages call the text
  std::string text;
};

/// Throws TypeError for what is none of these.
ConfigGiven config_given(nanobind::handle config, const char* function);

}  // namespace bearing::python
