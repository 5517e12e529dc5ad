#pragma once

#include <bearing/io.hpp>

#include "json_file.hpp"

// Files that describe a model in other words than a Hugging Face config: each reader says whether a file is one of
// its own, and then fills the model, or throws.

namespace bearing::dialects {

/// params.json of Mistral's and Meta's own checkpoints (dialect_params.cc).
bool read_params(const json::Object& file, Model& model);

/// config.json of a transformer of diffusers, by its _class_name (dialect_diffusers.cc).
bool read_diffusers(const json::Object& file, Model& model);

/// config.json of timm, by its architecture and model_args (dialect_timm.cc).
bool read_timm(const json::Object& file, Model& model);

/// The first of them that knows the file; false for a Hugging Face config.
inline bool read(const json::Object& file, Model& model) {
  return read_diffusers(file, model) || read_timm(file, model) || read_params(file, model);
}

}  // namespace bearing::dialects
