#pragma once

#include <gtest/gtest.h>
#include <bearing/encodings/rope.hpp>
#include <bearing/reference.hpp>
#include <sstream>

#include "support/guarded.hpp"

namespace bearing::test {

/// Runs body<T>(…) for the four types of data.
template <class Body>
void for_each_type(Body&& body) {
  body(double{});
  body(float{});
  body(Bfloat16{});
  body(Float16{});
}
template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, double>) return "f64";
  if constexpr (std::is_same_v<T, float>) return "f32";
  return std::is_same_v<T, Bfloat16> ? "bf16" : "f16";
}

/// Which elements pair i has.
inline std::array<Index, 2> elements(const RopeFrequencies& frequencies, Index i) {
  if (frequencies.pairing == Pairing::interleaved) return {frequencies.begin + 2 * i, frequencies.begin + 2 * i + 1};
  return {frequencies.begin + i, frequencies.begin + i + frequencies.pairs()};
}

/// The rotation of x by the reference, in double: [batch, heads, time, head_dim].
template <class T>
std::vector<double> reference_rotation(const RopeFrequencies& frequencies, const Guarded<T>& x, const Positions& at) {
  const std::vector<double> from = x.doubles();
  std::vector<double> to(from.size());
  const auto [batch, heads, time, dim] = x.view().shape;
  reference::rotate(frequencies, bhtd(from.data(), batch, heads, time, dim), at,
                    bhtd(to.data(), batch, heads, time, dim));
  return to;
}

/// How far a rotated element may lie from the exact one.
///
/// float: 3 ulp of the pair's norm: cos and sin bring 0.55 ulp of at most 1 each, the products and the sum ½ ulp each
/// of at most the norm. 16 bits: that, and their own rounding of the result. double: 1e-12 of the row's maximum.
template <class T>
double rotation_bound(double norm, double row_maximum, double expected) {
  if constexpr (std::is_same_v<T, double>) return 1e-12 * row_maximum;
  const double in_float = 3 * ulp<float>(norm);
  if constexpr (std::is_same_v<T, float>) return in_float;
  return in_float + 0.5 * ulp<T>(std::abs(expected) + in_float);
}

/// Compares y with the rotation of x by the reference (`expected`), pair by pair, and what passes through bit for bit.
template <class T>
::testing::AssertionResult is_rotation(const RopeFrequencies& frequencies, const Guarded<T>& x,
                                       const std::vector<double>& expected, const Guarded<T>& y) {
  const Index heads = x.view().shape[1], time = x.view().shape[2], dim = x.view().shape[3];
  const Index rows = x.view().shape[0] * heads * time;
  const std::vector<T> from = x.values(), got = y.values();
  std::vector<char> turns(static_cast<std::size_t>(dim), 0);
  for (Index i = 0; i < frequencies.pairs(); ++i) {
    for (Index d : elements(frequencies, i)) turns[static_cast<std::size_t>(d)] = 1;
  }
  const auto fail = [&](Index row, Index d, double wanted, double bound) {
    return ::testing::AssertionFailure() << "[batch " << row / time / heads << ", head " << row / time % heads
                                         << ", time " << row % time << ", dim " << d << "] is "
                                         << to_double(got[static_cast<std::size_t>(row * dim + d)]) << ", expected "
                                         << wanted << " within " << bound;
  };
  for (Index row = 0; row < rows; ++row) {
    const auto at = [&](Index d) { return static_cast<std::size_t>(row * dim + d); };
    double maximum = 0;
    for (Index d = 0; d < dim; ++d) maximum = std::max(maximum, std::abs(expected[at(d)]));
    for (Index d = 0; d < dim; ++d) {
      if (turns[static_cast<std::size_t>(d)] == 0 && std::memcmp(&got[at(d)], &from[at(d)], sizeof(T)) != 0) {
        return fail(row, d, to_double(from[at(d)]), 0);
      }
    }
    for (Index i = 0; i < frequencies.pairs(); ++i) {
      const auto [u, v] = elements(frequencies, i);
      const double norm = std::hypot(expected[at(u)], expected[at(v)]);
      for (Index d : {u, v}) {
        const double bound = rotation_bound<T>(norm, maximum, expected[at(d)]);
        if (!(std::abs(to_double(got[at(d)]) - expected[at(d)]) <= bound)) return fail(row, d, expected[at(d)], bound);
      }
    }
  }
  return ::testing::AssertionSuccess();
}

/// A tensor of positions, integer or real, with a view of the right rank.
template <class P>
struct PositionTensor {
  Index axes, batch, time;
  std::vector<P> values;

  PositionTensor(Index axes_, Index batch_, Index time_)
      : axes(axes_), batch(batch_), time(time_), values(static_cast<std::size_t>(axes_ * batch_ * time_)) {}
  void fill(Random& random, double low, double high) {
    for (P& p : values) {
      if constexpr (std::is_integral_v<P>) {
        p = random.integer(static_cast<Index>(low), static_cast<Index>(high));
      } else {
        p = random.uniform(low, high);
      }
    }
  }
  View<const P, 3> view() const { return dense(values.data(), axes, batch, time); }
  operator Positions() const { return Positions(view()); }
};

/// Heads of one size: whole, and all partial forms that fit.
inline std::vector<Rope> ropes(Index head_dim) {
  std::vector<Rope> all;
  for (Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const Rope whole{.head_dim = head_dim, .base = 500'000, .pairing = pairing};
    all.push_back(whole);
    if (head_dim < 6) continue;
    Rope part = whole;
    part.rotary_dim = head_dim / 4 * 2;
    all.push_back(part);
    part.part = RotaryPart::last();
    all.push_back(part);
    part.part = RotaryPart::window(1);
    all.push_back(part);
  }
  return all;
}

inline constexpr Index head_dims[] = {2, 4, 6, 10, 64, 80, 96, 128, 256};

inline std::string describe(const Rope& rope) {
  constexpr const char* parts[] = {"first", "last", "window"};
  std::ostringstream text;
  text << "head_dim " << rope.head_dim << ", rotary_dim " << rope.rotary_dim << ", base " << rope.base << ", "
       << (rope.pairing == Pairing::half ? "half" : "interleaved") << ", part "
       << parts[static_cast<std::size_t>(rope.part.where)] << " " << rope.part.begin;
  return text.str();
}
inline std::string describe(const Shape& shape) {
  std::ostringstream text;
  text << "[" << shape[0] << ", " << shape[1] << ", " << shape[2] << ", " << shape[3] << "]";
  return text.str();
}

}  // namespace bearing::test
