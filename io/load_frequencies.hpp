#pragma once

#include <bearing/io.hpp>
#include <bearing/safetensors.hpp>

// What weights say of rotary frequencies.

namespace bearing::load {

/// Old checkpoints hold the frequencies that their config gave when they were saved: warns where they differ.
void check_inv_freq(Model& model, Weights& weights);

/// What LeRoPE's weights multiply the frequencies of every rotating layer by: e^alpha, a number for each pair.
void take_log_factors(Model& model, Weights& weights);

}  // namespace bearing::load
