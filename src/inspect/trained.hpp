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
inline constexpr std::array<Trained, 4> trained = {{
    {"sinusoidal", "extrapolation moderate", "fails in our runs: in the last quarter of the places the perplexity at 16 times the trained length is 4.80 +- 0.60 times that at the trained length (models of 0.12 million parameters, 3 seeds)", "docs/lab/sinusoidal.md"},
    {"t5", "extrapolation moderate", "fails in our runs: in the last quarter of the places the perplexity at 16 times the trained length is 2.65 +- 0.72 times that at the trained length (models of 0.12 million parameters, 3 seeds)", "docs/lab/encoders.md"},
    {"alibi", "extrapolation excellent", "holds in our runs, by less than the interval: in the last quarter of the places the perplexity at 16 times the trained length is 1.01 +- 0.14 times that at the trained length (models of 0.12 million parameters, 3 seeds)", "docs/lab/alibi.md"},
    {"rope", "extrapolation good", "fails in our runs: in the last quarter of the places the perplexity at 16 times the trained length is 9.8 +- 1.3 times that at the trained length (models of 0.12 million parameters, 3 seeds)", "docs/lab/rope.md"},
}};
// clang-format on

}  // namespace bearing::inspect
