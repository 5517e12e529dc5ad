#include <algorithm>
#include <array>
#include <bearing/rope_report.hpp>
#include <cmath>

#include "inspect/claims.hpp"
#include "inspect/probes.hpp"
#include "text.hpp"

// What is said of rotations.

namespace bearing::inspect {

using text::concat;

namespace {

Claim rotation_is_its_transpose() {
  // y = R x with the gradient g of y: the gradient of x is Rᵀ g, by differences of g·R x too.
  const Rope rope{.head_dim = 4, .pairing = Pairing::interleaved, .scaling = ExplicitFrequencies{{1, 0.1}}};
  const RopeTable<double> table(rope, 4);
  std::array<double, 4> forward = {1, 2, 3, 4}, back = forward;
  const Positions at(2);
  rotate(table, bhtd(forward.data(), 1, 1, 1, 4), at);
  rotate_backward(table, bhtd(back.data(), 1, 1, 1, 4), at);
  double off = 0, wrong = 0;
  for (std::size_t d = 0; d < 4; ++d) {
    std::array<double, 4> e{};
    e[d] = 1;
    rotate(table, bhtd(e.data(), 1, 1, 1, 4), at);
    const double derivative = e[0] + 2 * e[1] + 3 * e[2] + 4 * e[3];  // linear: a difference is the derivative
    off = std::max(off, std::abs(derivative - back[d]));
    wrong = std::max(wrong, std::abs(derivative - forward[d]));
  }
  return claim(
      "rope", "the rotation is its own transpose, so gradients turn by R(i) too", wrong < 1e-12,
      concat("theta = (1, 0.1), position 2: R(i) is off by ", brief(wrong), ", its transpose R(-i) by ", brief(off)),
      wrong);
}

Claim slowest_of_llama3() {
  const double rate = resolve(rope_of(128, 500'000)).inv_freq.back();
  return claim("rope", "with base 500000 the slowest pair turns by 1/500000", std::abs(rate * 500'000 - 1) < 1e-3,
               concat("head_dim 128: by 1/", brief(std::round(1 / rate))), rate);
}

Claim example_frequencies() {
  const double second = resolve(rope_of(4)).inv_freq[1];
  return claim("rope", "head_dim 4 has theta = (1, 0.1)", std::abs(second - 0.1) < 1e-12,
               concat("with base 10000 theta = (1, ", brief(second), "); (1, 0.1) is base 100"), second);
}

Claim rotations_compose() {
  constexpr Index dim = 16;
  const RopeTable<double> table(rope_of(dim), 64);
  double off = 0;
  Normal normal(1);
  Array q = normal.array(1, 1, dim), k = normal.array(1, 1, dim);
  const auto product_at = [&](Index m, Index n) {
    Array x = q, y = k;
    rotate(table, bhtd(x.values.data(), 1, 1, 1, dim), Positions(m));
    rotate(table, bhtd(y.values.data(), 1, 1, 1, dim), Positions(n));
    return products(x.head(0), y.head(0)).values[0];
  };
  for (Index m = 0; m < 32; ++m) {
    for (Index n = 0; n < 32; ++n) off = std::max(off, std::abs(product_at(m, n) - product_at(0, n - m)));
  }
  return claim("rope", "the product of R(m)q and R(n)k depends on n - m alone", off < 1e-12,
               concat("1024 pairs of positions: off by at most ", brief(off)), off);
}

Claim turns_by_the_distance() {
  // The first pair of (1, 0), a query at 7 that meets a key at 3.
  const Rope rope{.head_dim = 2, .pairing = Pairing::interleaved, .scaling = ExplicitFrequencies{{0.1}}};
  const RopeTable<double> table(rope, 8);
  const auto angle_at = [&](Index position) {
    std::array<double, 2> x = {1, 0};
    rotate(table, bhtd(x.data(), 1, 1, 1, 2), Positions(position));
    return std::atan2(x[1], x[0]) / 0.1;
  };
  const double query = angle_at(7), key = angle_at(3);
  return claim("rope", "a vector is turned by m*theta, where m is the distance of query and key",
               std::abs(query - 4) < 1e-9,
               concat("query at 7, key at 3: the query turns by ", brief(query), " theta, the key by ", brief(key),
                      " theta, each by its own position; only their product is one of the distance 4"),
               query);
}

/// Of the product of a row with its equal one token later, over that with itself, in sequences of two lengths.
Claim same_at_any_length(const char* name, const Rope& rope) {
  const auto neighbours = [&](Index seq_len) {
    const std::vector<double> products = rotation_similarity(resolve(rope, seq_len), 2);
    return products[1] / products[0];
  };
  const double in_short = neighbours(64), in_long = neighbours(4096);
  return claim(name, "neighbours get the same score in a sequence of any length", std::abs(in_short - in_long) <= 1e-12,
               concat("head_dim 64, equal tokens at 2 and 3: ", brief(in_short), " of their norm among 64 tokens, ",
                      brief(in_long), " among 4096"),
               in_long - in_short);
}

Claim rope_at_any_length() { return same_at_any_length("rope", rope_of(64)); }
Claim dynamic_at_any_length() {
  Rope rope = rope_of(64);
  rope.scaling = DynamicNtkScaling{.trained_length = 64};
  return same_at_any_length("rope_dynamic_ntk", rope);
}

}  // namespace

std::vector<Said> said_of_rotations() {
  return {{"rope", rotations_compose, {"offset", {"rope"}, {.dim = 16, .offset = 5}}},
          {"rope", turns_by_the_distance, {"hands", {"rope"}, {.dim = 4, .positions = {3, 7}}}},
          {"rope", rotation_is_its_transpose, {"offset", {"rope:base=100"}, {.dim = 4, .offset = 2}}},
          {"rope", slowest_of_llama3, {"wavelengths", {"rope:base=500000"}, {.dim = 128}}},
          {"rope", example_frequencies, {"wavelengths", {"rope", "rope:base=100"}, {.dim = 4, .length = 1000}}},
          {"rope", rope_at_any_length, {"similarity", {"rope"}, {.length = 128}}},
          {"rope_dynamic_ntk",
           dynamic_at_any_length,
           {"wavelengths", {"rope_dynamic_ntk:trained_length=64"}, {.dim = 64, .length = 4096}}}};
}

}  // namespace bearing::inspect
