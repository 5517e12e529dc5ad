#pragma once

#include <bearing/io.hpp>
#include <bearing/safetensors.hpp>

// What weights say of rows that a formula makes.

namespace bearing::load {

/// A checkpoint of ViTMAE holds the table that its config's sinusoids make: warns where it holds others.
void check_sinusoids(Model& model, Weights& weights);

}  // namespace bearing::load
