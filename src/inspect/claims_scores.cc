#include <algorithm>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/t5.hpp>
#include <cmath>
#include <set>

#include "inspect/claims.hpp"
#include "inspect/probes.hpp"
#include "text.hpp"

// What is said of encodings on the score.

namespace bearing::inspect {

using text::concat;

namespace {

// T5

Claim t5_exact_to_eight() {
  const auto exact = [](T5Direction direction) {
    const T5 t5{.direction = direction};
    Index distance = 0;  // the largest with a bucket of its own, and so all smaller ones
    while (t5_bucket(t5, -distance - 1) != t5_bucket(t5, -distance - 2)) ++distance;
    return distance;
  };
  const Index both = exact(T5Direction::bidirectional), causal = exact(T5Direction::causal);
  return claim("t5", "distances up to 8 have buckets of their own", both == 8 || causal == 8,
               concat("up to ", both, " in both directions, up to ", causal, " in a decoder"),
               static_cast<double>(both));
}

// ALiBi

Claim alibi_formula() {
  double worst = 0;
  Index at = 0;
  for (Index heads = 1; heads <= 64; ++heads) {
    const std::vector<double> slopes = Alibi::published(heads).slopes;
    double off = 0;
    for (Index h = 0; h < heads; ++h) {
      const double formula = std::exp2(-8 * static_cast<double>(h + 1) / static_cast<double>(heads));
      off = std::max(off, std::abs(formula - slopes[static_cast<std::size_t>(h)]));
    }
    if (off > worst) worst = off, at = heads;
  }
  return claim("alibi", "head h of H has the slope 2^(-8h/H)", worst < 1e-12,
               concat("of the published slopes only for H a power of two; else off by up to ", brief(worst),
                      " (H = ", at, ", of 1 to 64)"),
               worst);
}

// Shaw

Claim one_vector_per_pair() {
  constexpr Index tokens = 64;
  const Description& shaw = *find("shaw");
  const SpecimenOptions size{.heads = 1, .dim = 16, .length = tokens};
  Record spec = shaw.spec(size);
  spec.set("clip", tokens - 1);  // no distance is cut
  Probe probe(shaw, size);
  probe.specimen = make(shaw, size, spec);
  const Array scores = probe.specimen.scores(probe.specimen.tokens(tokens), probe.specimen.tokens(tokens),
                                             probe.alike(tokens), probe.alike(tokens, 1));
  const std::set<double> distinct(scores.values.begin(), scores.values.end());
  const auto count = static_cast<Index>(distinct.size());
  return claim("shaw", "T tokens need T x 2 x (T - 1) vectors, one for each pair and direction",
               count == tokens * 2 * (tokens - 1),
               concat("T = 64: the 4096 pairs of tokens have ", count,
                      " different scores for one content, 2T - 1: a vector per "
                      "offset, not ",
                      tokens * 2 * (tokens - 1)),
               static_cast<double>(count));
}

}  // namespace

std::vector<Said> said_of_scores() {
  return {{"t5", t5_exact_to_eight, {"buckets", {"t5", "t5_causal"}, {}}},
          {"alibi", alibi_formula, {"decay", {"alibi"}, {.heads = 12}}},
          {"shaw", one_vector_per_pair, {"buckets", {"shaw:clip=63"}, {.length = 64}}}};
}

}  // namespace bearing::inspect
