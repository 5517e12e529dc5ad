#include <bearing/regions.hpp>

#include "describe/describer.hpp"

// What the specs of regions say of themselves. They are no encodings: attention takes them beside its encodings.

namespace bearing {

void describe_region_specs(Describer& to) {
  to.record("DualChunk", DualChunk{.chunk_size = 0, .local_size = 0},
            "Dual chunk attention (An et al. 2024, arXiv 2402.17463; Qwen2.5-1M), for attention's `regions`. With\n"
            "s = chunk_size − local_size, keys are turned at n mod s. Queries are turned at m mod s for keys of their "
            "own chunk,\n"
            "at min(m mod s + s, chunk_size) for keys of the chunk before, and at min(2s − 1, chunk_size) for earlier "
            "ones.")
      .member("chunk_size", &DualChunk::chunk_size,
              "The largest distance that there is; at most the length that the model was trained for.")
      .member("local_size", &DualChunk::local_size, "By how much a chunk is shorter than chunk_size.");
  to.record("SelfExtend", SelfExtend{.group = 1, .window = 0},
            "Self-Extend (Jin et al. 2024, arXiv 2401.01325), for attention's `regions`. Keys nearer than the window "
            "are met\n"
            "as they are. For the others, queries are turned at ⌊m / group⌋ + window − ⌊window / group⌋ and keys at "
            "⌊n / group⌋.")
      .member("group", &SelfExtend::group, "How many positions beyond the window become one.")
      .member("window", &SelfExtend::window, "Keys at distances below it are met as they are.");
  to.record("ReRope", ReRope{.window = 0},
            "ReRoPE (Su 2023), for attention's `regions`. Keys nearer than the window are met as they are, all others "
            "at\n"
            "window + step · (m − n − window): at the window itself, or with a step above 0 ever farther (Leaky "
            "ReRoPE).")
      .member("window", &ReRope::window, "Keys at distances below it are met as they are.")
      .member("step", &ReRope::step, "How much a position beyond the window counts, from 0 to 1.");
}

}  // namespace bearing
