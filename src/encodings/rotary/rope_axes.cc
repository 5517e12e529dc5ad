#include <algorithm>
#include <bearing/encodings/rope_axes.hpp>
#include <bearing/error.hpp>
#include <bearing/term.hpp>
#include <cmath>
#include <utility>

#include "text.hpp"

namespace bearing {
namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

template <class... Pieces>
[[noreturn]] void refuse_axes(const Pieces&... pieces) {
  throw ShapeError(text::concat("[pair_axes] ", pieces...));
}

/// One for each axis, or none.
void check_per_axis(const char* name, const std::vector<double>& numbers, Index axes) {
  if (!numbers.empty() && std::ssize(numbers) != axes) {
    refuse_axes(name, ": must have one entry per axis, ", axes, ", got ", Index{std::ssize(numbers)});
  }
  for (const double number : numbers) {
    if (std::isfinite(number) && number > 0) continue;
    throw RangeError(text::concat("[pair_axes] ", name, ": must be finite and above 0, got ", number));
  }
}

/// How many pairs each axis turns, checked. n: the pairs that turn.
std::vector<Index> pairs_per_axis(const RopeAxes& axes, Index n) {
  std::vector<Index> counts = axes.pairs;
  if (axes.order == RopeAxes::Order::listed) {
    if (std::ssize(axes.pairs) != n) {
      refuse_axes("pairs: must list the axis of each of the ", n, " pairs, got ", Index{std::ssize(axes.pairs)},
                  " entries");
    }
    counts.clear();
    for (Index axis : axes.pairs) {
      if (axis < 0 || axis >= max_axes) refuse_axes("pairs: an axis must be from 0 to ", max_axes - 1, ", got ", axis);
      if (axis >= std::ssize(counts)) counts.resize(at(axis + 1));
      ++counts[at(axis)];
    }
  }
  if (std::ssize(counts) > max_axes) {
    refuse_axes("pairs: there may be at most ", max_axes, " axes, got ", Index{std::ssize(counts)});
  }
  Index rest = n;
  for (std::size_t a = 0; a < counts.size(); ++a) {
    if (counts[a] < 1) {
      refuse_axes("pairs: every axis must turn at least one pair, got ", counts[a], " for axis ",
                  static_cast<Index>(a));
    }
    rest -= std::min(counts[a], n + 1);  // no overflow, however large the entries
  }
  if (rest != 0) {
    refuse_axes("pairs: must add up to rotary_dim / 2", axes.still > 0 ? text::concat(" - ", axes.still, " still") : "",
                " = ", n, ", got ", axes.pairs);
  }
  return counts;
}

/// The axis of each pair.
std::vector<Index> axis_of_pairs(RopeAxes::Order order, const std::vector<Index>& listed,
                                 const std::vector<Index>& counts, Index n) {
  if (order == RopeAxes::Order::listed) return listed;
  const Index axes = std::ssize(counts);
  std::vector<Index> axis(at(n));
  if (order == RopeAxes::Order::contiguous) {
    auto next = axis.begin();
    for (Index a = 0; a < axes; ++a) next = std::fill_n(next, counts[at(a)], a);
    return axis;
  }
  for (Index a = 1; a < axes; ++a) {
    const Index last = a + axes * (counts[at(a)] - 1);
    if (last >= n) {
      refuse_axes("pairs: interleaved axes must end within the ", n, " pairs, got ", counts, ", where axis ", a,
                  " ends at pair ", last);
    }
    for (Index pair = a; pair <= last; pair += axes) axis[at(pair)] = a;
  }
  return axis;
}

}  // namespace

RopeAxes RopeAxes::sections(std::vector<Index> pairs) {
  return {std::move(pairs), Order::contiguous, Frequencies::shared};
}
RopeAxes RopeAxes::interleaved(std::vector<Index> pairs) {
  return {std::move(pairs), Order::interleaved, Frequencies::shared};
}
RopeAxes RopeAxes::axial(std::vector<Index> pairs) {
  return {std::move(pairs), Order::contiguous, Frequencies::restarted};
}
RopeAxes RopeAxes::strided(std::vector<Index> pairs) {
  return {std::move(pairs), Order::contiguous, Frequencies::strided};
}
RopeAxes RopeAxes::blocks(std::vector<Index> pairs) {
  return {.pairs = std::move(pairs),
          .order = Order::contiguous,
          .frequencies = Frequencies::restarted,
          .halves = Halves::axis};
}
RopeAxes RopeAxes::listed(std::vector<Index> axis_of_pair) {
  return {std::move(axis_of_pair), Order::listed, Frequencies::shared};
}

PairAxes pair_axes(const RopeAxes& axes, Index rotary_dim) {
  if (rotary_dim < 2 || rotary_dim % 2 != 0) refuse_axes("rotary_dim: must be even and at least 2, got ", rotary_dim);
  if (axes.still < 0 || axes.still >= rotary_dim / 2) {
    refuse_axes("still: must be from 0 to one less than the ", rotary_dim / 2, " pairs, got ", axes.still);
  }
  const Index n = rotary_dim / 2 - axes.still;
  const std::vector<Index> counts = axes == RopeAxes{} ? std::vector<Index>{n} : pairs_per_axis(axes, n);
  check_per_axis("bases", axes.bases, std::ssize(counts));
  check_per_axis("ntk_factors", axes.ntk_factors, std::ssize(counts));

  PairAxes map;
  map.axes = std::ssize(counts);
  map.axis = axis_of_pairs(axes.order, axes.pairs, counts, n);
  map.numerator.reserve(at(n));
  map.denominator.reserve(at(n));
  std::vector<Index> seen(counts.size());  // pairs of each axis so far
  for (Index pair = 0; pair < n; ++pair) {
    const Index a = map.axis[at(pair)], j = seen[at(a)]++;
    Index numerator = pair, denominator = rotary_dim;
    if (axes.frequencies == RopeAxes::Frequencies::restarted) numerator = j, denominator = 2 * counts[at(a)];
    if (axes.frequencies == RopeAxes::Frequencies::strided) numerator = j * map.axes + a;
    if (numerator >= n) {
      refuse_axes("pairs: strided axes must stay within the ", n, " frequencies, got ", counts, ", where axis ", a,
                  " needs frequency ", numerator);
    }
    map.numerator.push_back(numerator);
    map.denominator.push_back(denominator);
    if (denominator > 2 || axes.ntk_factors.empty() || axes.ntk_factors[at(a)] == 1) continue;
    refuse_axes("ntk_factors: must be 1 for an axis whose run has one pair (r/(r-2) divides by zero), got ",
                axes.ntk_factors[at(a)], " for axis ", a);
  }
  map.axis.resize(at(n + axes.still), map.axes - 1);
  map.numerator.resize(at(n + axes.still));
  map.denominator.resize(at(n + axes.still));
  if (axes.halves == RopeAxes::Halves::axis) {
    if (axes.order != RopeAxes::Order::contiguous) {
      refuse_axes("halves: must be of the head unless each axis' pairs lie together, got axis in another order");
    }
    map.blocks = counts;
    if (axes.still > 0) map.blocks.push_back(axes.still);
  }
  return map;
}

}  // namespace bearing
