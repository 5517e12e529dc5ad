#pragma once

#include <algorithm>
#include <bearing/description.hpp>
#include <bearing/inspect.hpp>
#include <cmath>

#include "text.hpp"

// How parameters start, and how examples draw them.

namespace bearing::describe {

/// The same number everywhere.
inline Rule constant(double value) {
  return {text::concat("at ", value),
          [value](const Filling& to) { std::fill(to.numbers.begin(), to.numbers.end(), value); }};
}

inline Rule normal(double deviation, double mean = 0) {
  return {text::concat("normal, of standard deviation ", deviation, mean == 0 ? "" : text::concat(", around ", mean)),
          [=](const Filling& to) {
            inspect::Normal draw(to.seed);
            for (double& number : to.numbers) number = mean + deviation * draw();
          }};
}

/// Numbers of that rule, for examples that fill arrays by themselves.
inline std::vector<double> normals(Index count, double deviation, std::uint64_t seed) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  normal(deviation).fill({numbers, {}, {}, seed});
  return numbers;
}

/// Normal, drawn again where it is further than two deviations from 0.
inline Rule truncated_normal(double deviation) {
  return {text::concat("normal, of standard deviation ", deviation, ", cut off at two of them"),
          [=](const Filling& to) {
            inspect::Normal draw(to.seed);
            for (double& number : to.numbers) {
              double x = draw();
              while (std::abs(x) > 2) x = draw();
              number = deviation * x;
            }
          }};
}

inline Rule uniform(double low, double high) {
  return {text::concat("uniform from ", low, " to ", high), [=](const Filling& to) {
            inspect::Normal draw(to.seed);
            for (double& number : to.numbers) number = low + (high - low) * draw.uniform();
          }};
}

/// Glorot's uniform numbers, of the last two axes.
inline Rule glorot() {
  return {"Glorot-uniform", [](const Filling& to) {
            const std::size_t axes = to.extents.size();
            const auto sum = static_cast<double>(to.extents[axes - 1] + to.extents[axes - 2]);
            uniform(-std::sqrt(6 / sum), std::sqrt(6 / sum)).fill(to);
          }};
}

/// Positive numbers around `middle`: middle · 2^(x/2), x normal.
inline Rule positive(double middle, double most = INFINITY) {
  return {text::concat("positive, around ", middle), [=](const Filling& to) {
            inspect::Normal draw(to.seed);
            for (double& number : to.numbers) number = std::min(most, middle * std::exp2(draw() / 2));
          }};
}

}  // namespace bearing::describe
