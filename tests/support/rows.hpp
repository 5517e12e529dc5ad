#pragma once

#include <gtest/gtest.h>
#include <bearing/encodings/rope.hpp>

#include "support/guarded.hpp"
#include "support/oracle.hpp"

namespace bearing::test {

/// cos and sin of some positions: [positions, pairs] each.
template <class T>
struct CosSinRows {
  Index positions = 0, pairs = 0;
  std::vector<T> cos, sin;

  CosSinRows(Index positions_, Index pairs_)
      : positions(positions_),
        pairs(pairs_),
        cos(static_cast<std::size_t>(positions_ * pairs_)),
        sin(static_cast<std::size_t>(positions_ * pairs_)) {}
  T cos_at(Index row, Index pair) const { return cos[static_cast<std::size_t>(row * pairs + pair)]; }
  T sin_at(Index row, Index pair) const { return sin[static_cast<std::size_t>(row * pairs + pair)]; }
  View<T, 2> cos_view() { return dense(cos.data(), positions, pairs); }
  View<T, 2> sin_view() { return dense(sin.data(), positions, pairs); }
  friend void PrintTo(const CosSinRows& rows, std::ostream* out) {
    *out << rows.positions << " rows of " << rows.pairs << " pairs";
    if (rows.cos.size() > 1) *out << ", the last with cos " << to_double(rows.cos.back());
  }
  bool operator==(const CosSinRows& other) const { return same_bits(cos, other.cos) && same_bits(sin, other.sin); }
};

/// What fill() writes.
template <class T, class P>
CosSinRows<T> filled(const RopeFrequencies& frequencies, const std::vector<P>& positions, const Executor& on = {}) {
  CosSinRows<T> rows(static_cast<Index>(positions.size()), frequencies.pairs());
  fill(frequencies, Positions(dense(positions.data(), rows.positions)), rows.cos_view(), rows.sin_view(), on);
  return rows;
}

/// The rows that rotate() used: (1, 0) turns to (cos, sin), without any rounding.
template <class T, class P>
CosSinRows<T> used(const RopeTable<T>& table, const std::vector<P>& positions, const Executor& on = {}) {
  const RopeFrequencies& frequencies = table.frequencies();
  CosSinRows<T> rows(static_cast<Index>(positions.size()), frequencies.pairs());
  const bool half = frequencies.pairing == Pairing::half;
  const Index between = half ? 1 : 2, partner = half ? frequencies.pairs() : 1;
  std::vector<T> x(static_cast<std::size_t>(rows.positions * frequencies.head_dim));
  const View<T, 4> view = bhtd(x.data(), 1, 1, rows.positions, frequencies.head_dim);
  for (Index t = 0; t < rows.positions; ++t) {
    for (Index i = 0; i < rows.pairs; ++i) view(0, 0, t, frequencies.begin + i * between) = 1;
  }
  rotate(table, view, Positions(dense(positions.data(), rows.positions)), on);
  for (Index t = 0; t < rows.positions; ++t) {
    for (Index i = 0; i < rows.pairs; ++i) {
      rows.cos_view()(t, i) = view(0, 0, t, frequencies.begin + i * between);
      rows.sin_view()(t, i) = view(0, 0, t, frequencies.begin + i * between + partner);
    }
  }
  return rows;
}

/// Keeps the largest error and fails, naming the sample, at the first that is past the bound.
class WorstUlps {
 public:
  explicit WorstUlps(double bound) : bound_(bound) {}

  template <class T>
  void see(T cos, T sin, const TrueCosSin& truth, double base, Index pair, double position) {
    const double error = std::max(ulps(cos, truth.cos), ulps(sin, truth.sin));
    ++samples_;
    if (!(error <= worst_)) worst_ = error;
    if (!(error <= bound_) && failures_++ < 5) {
      ADD_FAILURE() << error << " ulp, allowed are " << bound_ << ": base or theta " << base << ", pair " << pair
                    << ", position " << std::to_string(position) << ", cos " << to_double(cos) << ", sin "
                    << to_double(sin);
    }
  }

  double worst() const { return worst_; }
  Index samples() const { return samples_; }

 private:
  double bound_, worst_ = 0;
  Index samples_ = 0, failures_ = 0;
};

}  // namespace bearing::test
