#include <algorithm>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/rows.hpp>
#include <cmath>
#include <numbers>

#include "inspect/claims.hpp"
#include "inspect/dots.hpp"
#include "inspect/probes.hpp"
#include "text.hpp"

// What is said of encodings on the input.

namespace bearing::inspect {

using text::concat;

namespace {

constexpr double pi = std::numbers::pi;

Array sinusoids(Index dim, Index time) {
  Array rows(1, time, dim);
  fill<double>(Sinusoidal{.dim = dim, .layout = SinusoidalLayout::interleaved}, {},
               View<double, 2>{rows.values.data(), {time, dim}, {dim, 1}});
  return rows;
}

Claim similarity_decreases() {
  constexpr Index steps = 4096;
  const Array rows = sinusoids(128, steps + 1);
  const View<const double, 2> first{rows.values.data(), {1, 128}, {128, 1}};
  const Decay d = decay(products(first, rows.head(0)).values);
  return claim("sinusoidal", "the similarity of two positions decreases smoothly with their distance", d.rises == 0,
               concat("dim 128: it rises at ", d.rises, " of ", steps, " steps and is negative at ", d.negative,
                      "; only its envelope falls"),
               static_cast<double>(d.rises));
}

Claim similarity_is_symmetric() {
  const Array rows = sinusoids(64, 96);
  const Array s = products(rows.head(0), rows.head(0));
  double off = 0;
  for (Index i = 0; i < 96; ++i) {
    for (Index j = 0; j < 96; ++j) off = std::max(off, std::abs(s(0, i, j) - s(0, j, i)));
  }
  return claim("sinusoidal", "the similarity of two positions is symmetrical", off == 0,
               concat("PE(i).PE(j) and PE(j).PE(i) differ by ", brief(off)), off);
}

Claim shift_is_a_sine() {
  const Array rows = sinusoids(64, 384);
  constexpr Index k = 5;
  double sine = 0;
  for (Index p = 0; p + k < 384; ++p) {
    for (Index d = 0; d < 64; ++d) sine = std::max(sine, std::abs(rows(0, p + k, d) - std::sin(rows(0, p, d))));
  }
  const double map = shift_map(rows.head(0), k).held_out;
  return claim("sinusoidal", "PE(i + k) = sin(PE(i))", sine < 1e-6,
               concat("off by up to ", brief(sine), "; it is M*PE(i), a rotation of each pair: off by ", brief(map)),
               sine);
}

Claim code_with_pi() {
  constexpr Index dim = 512;
  const std::vector<double> rates = sinusoidal_frequencies({.dim = dim, .layout = SinusoidalLayout::interleaved});
  Index fast = 0;
  double most = 0, off = 0;
  for (Index i = 0; i < dim / 2; ++i) {
    const double frequency = rates[static_cast<std::size_t>(i)];
    const double rate = static_cast<double>(i) * pi * frequency;
    fast += rate > pi ? 1 : 0;
    most = std::max(most, rate), off = std::max(off, std::abs(rate - frequency));
  }
  return claim("sinusoidal", "code: angle = position * (i*pi / 10000^(2i/d))", off < 1e-9,
               concat("that has another factor i*pi: with dim 512 pair 0 never turns, ", fast,
                      " of 256 pairs turn more than half a circle per token, the fastest ", brief(most), " rad"),
               static_cast<double>(fast));
}

Claim first_pairs_are_slow() {
  const std::vector<double> rates = sinusoidal_frequencies({.dim = 512, .layout = SinusoidalLayout::interleaved});
  return claim("sinusoidal", "the first dimensions turn slowest", rates.front() < rates.back(),
               concat("dim 512: the first pair turns by ", brief(rates.front()), " rad per token, the last by ",
                      brief(rates.back())),
               rates.front());
}

Claim longest_wavelength() {
  const double longest = wavelengths(resolve(rope_of(128))).back();
  return claim("sinusoidal", "wavelengths reach 10000*2pi = 62832 tokens", std::abs(longest - 20'000 * pi) < 1,
               concat("dim 128: the longest is ", brief(std::round(longest)), " = 2pi*10000^((d-2)/d)"), longest);
}

Claim difference_is_distance() {
  constexpr Index steps = 4096;
  const Array rows = sinusoids(128, steps + 1);
  Index falls = 0;
  double before = 0, most = 0, last = 0;
  for (Index k = 1; k <= steps; ++k) {
    last = similarity(row(rows.head(0), 0), row(rows.head(0), k)).distance;
    falls += last < before ? 1 : 0;
    most = std::max(most, last);
    before = last;
  }
  return claim("sinusoidal", "the difference of two positions reflects their distance", falls == 0,
               concat("dim 128: |PE(0) - PE(k)| falls at ", falls, " of ", steps, " steps; it is ", brief(last),
                      " at the last, and never above ", brief(most)),
               static_cast<double>(falls));
}

Claim fast_pairs_average_out() {
  // What a pair adds to the product of two positions is the cosine of its angle between them.
  constexpr Index distances = 4096;
  const std::vector<double> rates = sinusoidal_frequencies({.dim = 128, .layout = SinusoidalLayout::interleaved});
  double squares = 0, mean = 0, most = 0;
  Index at = 0;
  for (Index k = 1; k <= distances; ++k) {
    const double added = std::cos(static_cast<double>(k) * rates.front());
    squares += added * added / distances, mean += added / distances;
    if (k > 100 && added > most) most = added, at = k;
  }
  const double swing = std::sqrt(squares);
  return claim(
      "sinusoidal", "fast pairs average out of the similarity, and slow ones are left", swing < 0.1,
      concat("the mean over distances is ", brief(mean), ", but at each distance the fastest pair adds up to 1, ",
             brief(swing), " in root mean square: ", brief(most), " at distance ", at),
      swing);
}

/// |p(3) − p(2)| of an example that was made for a length.
double step_at(const char* name, Index length) {
  const Specimen specimen = make(*find(name), {.heads = 1, .dim = 16, .length = length});
  const Array rows = specimen.inputs(specimen.tokens(4));
  return similarity(row(rows.head(0), 2), row(rows.head(0), 3)).distance;
}

Claim same_step_at_any_length(const char* name) {
  const double in_short = step_at(name, 64), in_long = step_at(name, 256);
  return claim(name, "positions 2 and 3 are as far apart in a sequence of any length",
               std::abs(in_short - in_long) <= 1e-12 * std::abs(in_short),
               concat("|p(3) - p(2)| is ", brief(in_short), " in a sequence of 64 tokens and ", brief(in_long),
                      " in one of 256"),
               in_long / in_short);
}

Claim sinusoidal_steps() { return same_step_at_any_length("sinusoidal"); }
Claim normalised_steps() { return same_step_at_any_length("index_normalised"); }

Claim related_tokens_at_any_distance() {
  // Equal tokens whose numbers have variance 1, under the identity as projections: the mean over their contents is
  // |x|² + PE(0)·PE(k).
  constexpr Index dim = 128, distances = 4096;
  const Array rows = sinusoids(dim, distances + 1);
  const double content = dim, near = content + similarity(row(rows.head(0), 0), row(rows.head(0), 0)).dot;
  double least = near;
  for (Index k = 1; k <= distances; ++k) {
    least = std::min(least, content + similarity(row(rows.head(0), 0), row(rows.head(0), k)).dot);
  }
  const std::vector<double> turned = rotation_similarity(resolve(rope_of(dim)), distances + 1);
  const double rotary = *std::min_element(turned.begin(), turned.end()) / turned.front();
  return claim("sinusoidal", "added to the input, it lets related tokens score high at any distance",
               least / near > 0.5,
               concat("dim 128, equal tokens of variance 1: at ", distances, " distances the score stays above ",
                      brief(least / near), " of that at distance 0; rotated instead it falls to ", brief(rotary)),
               least / near);
}

}  // namespace

std::vector<Said> said_of_inputs() {
  const auto sinusoidal = [](const char* kind, FigureOptions options) {
    return Picture{kind, {"sinusoidal"}, std::move(options)};
  };
  // The stray i*pi of four pairs.
  const std::string with_pi =
      R"(rope:{"head_dim":8,"pairing":"interleaved","scaling":{"type":"explicit","inv_freq":[0,0.314,0.0628,0.00942]}})";
  return {
      {"sinusoidal", similarity_decreases, sinusoidal("similarity", {.dim = 128, .length = 4097})},
      {"sinusoidal", difference_is_distance, sinusoidal("similarity", {.dim = 128, .length = 4097})},
      {"sinusoidal", fast_pairs_average_out, sinusoidal("curves", {.dim = 128, .length = 256, .dims = {1, 41, 81}})},
      {"sinusoidal", similarity_is_symmetric, sinusoidal("similarity", {.dim = 64, .length = 96})},
      {"sinusoidal", shift_is_a_sine, sinusoidal("offset", {.dim = 16, .offset = 5})},
      {"sinusoidal", code_with_pi, {"curves", {"sinusoidal", with_pi}, {.dim = 8, .length = 64, .dims = {0, 2}}}},
      {"sinusoidal", first_pairs_are_slow, sinusoidal("curves", {.dim = 512, .length = 256, .dims = {0, 256, 510}})},
      {"sinusoidal", longest_wavelength, sinusoidal("wavelengths", {.dim = 128, .length = 62'832})},
      {"sinusoidal", sinusoidal_steps, sinusoidal("similarity", {.dim = 16, .length = 256})},
      {"index_normalised",
       normalised_steps,
       {"curves", {"index_normalised:length=64", "index_normalised:length=256"}, {.length = 64, .dims = {0}}}},
      {"sinusoidal", related_tokens_at_any_distance, {"decay", {"sinusoidal", "rope"}, {.dim = 128, .length = 4097}}}};
}

}  // namespace bearing::inspect
