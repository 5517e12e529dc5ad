#pragma once

#include <bearing/io.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json_file.hpp"

// A composite's file keeps each part in an object of its own: the language model in text_config, a vision tower in
// vision_config. Which parts a composite has, and which model each is, stands in hf_composites.cc.

namespace bearing::hf {

/// A part: its name for people, its model_type, and the object that describes it.
struct Part {
  std::string name, model_type;
  json::Object file;
};

/// A whole file. What `main` is: the language model; without one, the part that the composite's code runs first; for a
/// file that is no composite, all of it.
struct Parts {
  Part main;
  std::vector<Part> towers;  ///< with the parts of a part after it
};
Parts parts_of(const json::Object& file);

/// One row per part of a composite, the main one first. `key` is "" where the file itself describes it.
struct CompositePart {
  std::string_view composite, key, model_type;
};
std::vector<CompositePart> composite_parts(std::string_view composite);

/// What a composite's own code does between its parts: it is named in the language model's inputs.
void read_between(const json::Object& file, Model& model);

/// Whether a table names a model_type: what is read of such a file is its own, and nothing is assumed.
bool known_type(std::string_view model_type);

}  // namespace bearing::hf
