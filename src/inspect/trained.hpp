#pragma once

#include <array>

// Written by `scripts/lab --pages` from docs/lab/results.jsonl.

namespace bearing::inspect {

/// What models of the lab did that were trained with an encoding, where a claim about it is one about trained models.
struct Trained {
  const char* encoding;
  const char* claim;
  const char* found;  ///< the verdict in these runs, and the numbers that decided
  const char* page;   ///< of the repository
};

// clang-format off
inline constexpr std::array<Trained, 0> trained = {};
// clang-format on

}  // namespace bearing::inspect
