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
  to.record("DistanceBand", Band{},
            "A band of distances, for a Region: begin <= m - n < end of a query at m and a key at n. Of chunks it is\n"
            "floor(m / chunk) - floor(n / chunk) that counts.")
      .member("begin", &Band::from, "The smallest distance; None for no limit.")
      .member("end", &Band::to, "The distance at which it ends; None for no limit.")
      .member("chunk", &Band::chunk, "How many positions a chunk has; 0 for distances.");
  to.record("Placing", Placing{},
            "Where a row that stands at p is turned, for a Region:\n\n"
            "    min(step floor((p mod period) / group) + offset, most)")
      .member("period", &Placing::period, "After how many positions it begins again; 0 for never.")
      .member("group", &Placing::group, "How many positions become one; 1 leaves p as it is.")
      .member("step", &Placing::step, "How much a position counts.")
      .member("offset", &Placing::offset, "What is added.")
      .member("most", &Placing::most, "The largest place that there is; None for no limit.");
  to.record(
        "Region", Region{},
        "A region of one softmax, for attention's `regions`: a list of them, each of which begins where the one "
        "before\n"
        "ends. The first one's band has no begin, the last one's no end. Rows of a pair of a query and a key in the "
        "band are\n"
        "turned where q and k place them.")
      .member("band", &Region::band, "The distances that it holds.")
      .member("q", &Region::q, "Where queries are turned.")
      .member("k", &Region::k, "Where keys are turned.");
}

}  // namespace bearing
