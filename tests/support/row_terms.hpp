#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/rows.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "support/random.hpp"
#include "support/targets.hpp"
#include "support/terms.hpp"
#include "support/workers.hpp"

// What every encoding of query and key rows is tested for, given how to make it from its parameters and what its
// reference does to one row: agreement with the reference at odd sizes and positions, gradients against central
// differences of the reference, the transpose, the same bits for any executor and in place.

namespace bearing::test {

struct RowCase {
  Index batch = 1, heads = 1, time = 1, dim = 0;
  Place place = Place::offsets;
  Index axes = 1;
  Index first = 0;  ///< the smallest position
  Side side = Side::query;
};

/// What a reference is told about one row.
struct RowSpot {
  Index b, h, i;
  const double* p;  ///< [axes]
  Side side;
};

/// Positions, rows and weights of a case, the same in both arithmetics.
class RowData {
 public:
  RowData(const RowCase& c, Index out_dim, std::uint64_t seed = 17) : c_(c), out_dim_(out_dim) {
    Random random(seed);
    const auto fill = [&](std::vector<double>& to, Index n) {
      to.resize(static_cast<std::size_t>(n));
      for (double& x : to) x = static_cast<double>(static_cast<float>(random.uniform(-1, 1)));
    };
    fill(x_, rows() * c.dim);
    fill(weights_, rows() * out_dim);
    x32_.assign(x_.begin(), x_.end());
    weights32_.assign(weights_.begin(), weights_.end());
    for (Index n = 0; n < c.axes * c.batch * c.time; ++n) {
      at_.push_back(static_cast<double>(c.first) + (c.place == Place::real
                                                        ? random.uniform(0, 12)
                                                        : static_cast<double>(random.integer(0, 3 * c.time / 2))));
    }
  }

  Index rows() const { return c_.batch * c_.heads * c_.time; }
  Index out_dim() const { return out_dim_; }
  Positions at() const {
    if (c_.place == Place::offsets && c_.axes == 1) return Positions(c_.first);
    return Positions(dense(at_.data(), c_.axes, c_.batch, c_.time));
  }
  /// … of token t alone.
  Positions at(Index t) const {
    if (c_.place == Place::offsets && c_.axes == 1) return Positions(c_.first + t);
    return Positions(View<const double, 3>{at_.data() + t, {c_.axes, c_.batch, 1}, {c_.batch * c_.time, c_.time, 1}});
  }
  template <class A>
  View<const A, 4> x() const {
    return view<A>(x_, x32_, c_.dim);
  }
  template <class A>
  View<const A, 4> weights() const {
    return view<A>(weights_, weights32_, out_dim_);
  }
  template <class A>
  View<A, 4> like_x(std::vector<A>& room) const {
    room.resize(static_cast<std::size_t>(rows() * c_.dim));
    return bhtd(room.data(), c_.batch, c_.heads, c_.time, c_.dim);
  }
  template <class A>
  View<A, 4> like_y(std::vector<A>& room) const {
    room.resize(static_cast<std::size_t>(rows() * out_dim_));
    return bhtd(room.data(), c_.batch, c_.heads, c_.time, out_dim_);
  }

  /// What the reference makes of all rows.
  template <class Reference>
  std::vector<double> reference(const Params& params, const Reference& reference) const {
    std::vector<double> y(static_cast<std::size_t>(rows() * out_dim_));
    const Positions positions = at();
    std::array<double, max_axes> p{};
    for (Index row = 0; row < rows(); ++row) {
      const Index i = row % c_.time, h = row / c_.time % c_.heads, b = row / c_.time / c_.heads;
      for (Index axis = 0; axis < c_.axes; ++axis) p[static_cast<std::size_t>(axis)] = positions.real(axis, b, i);
      reference(params, RowSpot{b, h, i, p.data(), c_.side},
                View<const double, 1>{x_.data() + row * c_.dim, {c_.dim}, {1}},
                View<double, 1>{y.data() + row * out_dim_, {out_dim_}, {1}});
    }
    return y;
  }

  std::vector<double>& x_values() { return x_; }
  const std::vector<double>& x_values() const { return x_; }
  const std::vector<double>& weight_values() const { return weights_; }

 private:
  template <class A>
  View<const A, 4> view(const std::vector<double>& f64, const std::vector<float>& f32, Index dim) const {
    if constexpr (std::is_same_v<A, double>) return bhtd(f64.data(), c_.batch, c_.heads, c_.time, dim);
    if constexpr (std::is_same_v<A, float>) return bhtd(f32.data(), c_.batch, c_.heads, c_.time, dim);
  }

  RowCase c_;
  Index out_dim_;
  std::vector<double> x_, weights_, at_;
  std::vector<float> x32_, weights32_;
};

/// None, one token, odd lengths, more than one tile, several sequences and heads, far away; queries and keys.
inline std::vector<RowCase> row_cases(Index heads, Index dim, Index axes = 1,
                                      std::vector<Place> places = {Place::offsets, Place::shuffled, Place::real}) {
  std::vector<RowCase> cases;
  for (const Side side : {Side::query, Side::key}) {
    for (const Place place : places) {
      cases.push_back({1, heads, 0, dim, place, axes, 0, side});
      cases.push_back({1, heads, 1, dim, place, axes, 0, side});
      cases.push_back({2, heads, 7, dim, place, axes, 3, side});
      cases.push_back({1, heads, 67, dim, place, axes, 20, side});
    }
  }
  return cases;
}

template <class E>
Index out_dim_of(const E& encoding, Index dim) {
  if constexpr (requires { encoding.out_dim(dim); }) return encoding.out_dim(dim);
  return dim;
}

/// The norm of every row of `dim` numbers, once for each of its `out_dim` results.
inline std::vector<double> norms(const std::vector<double>& rows, Index dim, Index out_dim) {
  std::vector<double> sizes;
  for (auto row = rows.begin(); row != rows.end(); row += dim) {
    const double norm = std::sqrt(std::inner_product(row, row + dim, row, 0.0));
    sizes.insert(sizes.end(), static_cast<std::size_t>(out_dim), norm);
  }
  return sizes;
}

template <class A, class Make>
std::vector<A> rows_of(const Make& make, Params& params, const RowCase& c, const RowData& data,
                       const Executor& on = {}) {
  std::vector<A> y;
  const auto encoding = make.template operator()<A>(params);
  turn<A>(encoding, c.side, data.at(), data.x<A>(), data.like_y(y), on);
  return y;
}

template <class Make>
RowData row_data(const Make& make, Params& params, const RowCase& c) {
  return RowData(c, out_dim_of(make.template operator()<double>(params), c.dim));
}

/// Angles are sums of products of positions below 2^7 with frequencies of some units: 2^-53 of them is 2^-45, and rows
/// move by no more than that times their norm, which is the size of what a result is summed of, however small it is.
/// In float, where angles and sums are double, a row of `dim` elements is rounded a few times: 2^-21.
template <class Make, class Reference>
void expect_reference_rows(const Make& make, Params& params, const std::vector<RowCase>& cases,
                           const Reference& reference, double tolerance = 0x1p-42, double float_tolerance = 0x1p-21) {
  for (const RowCase& c : cases) {
    const RowData data = row_data(make, params, c);
    const std::vector<double> truth = data.reference(params, reference);
    const std::vector<double> row_norms = norms(data.x_values(), c.dim, data.out_dim());
    on_every_target([&] {
      const std::vector<double> y64 = rows_of<double>(make, params, c, data);
      const std::vector<float> y32 = rows_of<float>(make, params, c, data);
      for (std::size_t x = 0; x < truth.size(); ++x) {
        const double size = std::max({1.0, std::abs(truth[x]), row_norms[x]});
        ASSERT_NEAR(y64[x], truth[x], tolerance * size) << "double, element " << x << ", time " << c.time;
        ASSERT_NEAR(static_cast<double>(y32[x]), truth[x], float_tolerance * size) << "float, element " << x;
      }
    });
  }
}

/// Gradients of the loss Σ w·y with respect to x, and to the parameters, where they have room.
template <class A, class Make>
std::vector<A> backward_of(const Make& make, Params& params, const RowCase& c, const RowData& data,
                           const Executor& on = {}) {
  params.clear_grads();
  std::vector<A> d_x;
  const auto encoding = make.template operator()<A>(params);
  turn_backward<A>(encoding, c.side, data.at(), data.x<A>(), data.weights<A>(), data.like_x(d_x), on);
  return d_x;
}

/// Central differences of the reference's loss for every element of every parameter and of x (at most 400 of each).
/// With a step of 2^-17 they err by h²/6 = 1e-11 of the third derivative, which for angles of frequencies at positions
/// p goes with p³, and by 2^-53/h = 1e-11 of the loss: cases are kept to p < 20, a few 1e-8 for each row.
template <class Make, class Reference>
void expect_row_gradients(const Make& make, Params& params, const std::vector<RowCase>& cases,
                          const Reference& reference, double tolerance = 1e-6) {
  const double step = 0x1p-17;
  for (const RowCase& c : cases) {
    if (c.time > 11) continue;
    RowData data = row_data(make, params, c);
    const std::vector<double> d_x = backward_of<double>(make, params, c, data);
    const auto loss = [&] {
      const std::vector<double> y = data.reference(params, reference);
      double sum = 0;
      for (std::size_t x = 0; x < y.size(); ++x) sum += data.weight_values()[x] * y[x];
      return sum;
    };
    const auto compare = [&](std::vector<double>& values, const std::vector<double>& grads, const std::string& what) {
      ASSERT_EQ(values.size(), grads.size());
      const std::size_t stride = std::max<std::size_t>(1, values.size() / 400);
      for (std::size_t x = 0; x < values.size(); x += stride) {
        const double value = values[x];
        values[x] = value + step;
        const double above = loss();
        values[x] = value - step;
        const double below = loss();
        values[x] = value;
        const double slope = (above - below) / (2 * step);
        ASSERT_NEAR(grads[x], slope, tolerance * std::max(1.0, std::abs(slope)))
            << what << " element " << x << ", time " << c.time;
        ++compared_gradients();
      }
    };
    for (std::size_t p = 0; p < params.count(); ++p) {
      compare(params.values(p), params.grads(p), "parameter " + std::to_string(p));
    }
    compare(data.x_values(), d_x, "x");
  }
}

/// The size of what is summed in each parameter's gradient: the largest element of what every token gives by itself,
/// added up. The sum itself may cancel to nothing.
template <class Make>
std::vector<double> param_gradient_sizes(const Make& make, Params& params, const RowCase& c, const RowData& data) {
  std::vector<double> sizes(params.count());
  const auto encoding = make.template operator()<double>(params);
  std::vector<double> room;
  for (Index t = 0; t < c.time; ++t) {
    const auto alone = [&](auto rows) {
      rows.data += t * rows.stride[2], rows.shape[2] = 1;
      return rows;
    };
    params.clear_grads();
    turn_backward<double>(encoding, c.side, data.at(t), alone(data.x<double>()), alone(data.weights<double>()),
                          alone(data.like_x(room)));
    for (std::size_t p = 0; p < params.count(); ++p) {
      double largest = 0;
      for (const double g : params.grads(p)) largest = std::max(largest, std::abs(g));
      sizes[p] += largest;
    }
  }
  return sizes;
}

/// Gradients in float are those in double, to 2^-18 of the size of what is summed: float rounds to 2^-24, and sums over
/// some hundred rows of both signs lose a few bits more. Of d_x, that size is the norm of d_y's row.
template <class Make>
void expect_float_row_gradients(const Make& make, Params& params, const std::vector<RowCase>& cases) {
  for (const RowCase& c : cases) {
    const RowData data = row_data(make, params, c);
    const std::vector<double> sizes = param_gradient_sizes(make, params, c, data);
    const std::vector<double> d_x = backward_of<double>(make, params, c, data);
    const std::vector<float> d_x32 = backward_of<float>(make, params, c, data);
    std::ignore = backward_of<double>(make, params, c, data);
    std::vector<std::vector<double>> grads;
    for (std::size_t p = 0; p < params.count(); ++p) grads.push_back(params.grads(p));
    std::ignore = backward_of<float>(make, params, c, data);
    const auto compare = [&](const std::vector<double>& f64, const std::vector<float>& f32, const auto& size) {
      for (std::size_t x = 0; x < f64.size(); ++x) {
        ASSERT_NEAR(static_cast<double>(f32[x]), f64[x], 0x1p-18 * std::max({1.0, std::abs(f64[x]), size(x)}))
            << "element " << x << ", time " << c.time;
      }
    };
    const std::vector<double> row_norms = norms(data.weight_values(), data.out_dim(), c.dim);
    compare(d_x, d_x32, [&](std::size_t x) { return row_norms[x]; });
    for (std::size_t p = 0; p < params.count(); ++p) {
      compare(grads[p], params.float_grads(p), [&](std::size_t) { return sizes[p]; });
    }
  }
}

/// ⟨T x, w⟩ = ⟨x, Tᵀ w⟩ for encodings that are linear in x: both sums of `rows · dim` products, in double.
template <class Make>
void expect_transpose(const Make& make, Params& params, const std::vector<RowCase>& cases) {
  for (const RowCase& c : cases) {
    const RowData data = row_data(make, params, c);
    const std::vector<double> y = rows_of<double>(make, params, c, data);
    const std::vector<double> d_x = backward_of<double>(make, params, c, data);
    double forward = 0, backward = 0;
    for (std::size_t x = 0; x < y.size(); ++x) forward += y[x] * data.weight_values()[x];
    for (Index row = 0, x = 0; row < data.rows(); ++row) {
      for (Index d = 0; d < c.dim; ++d, ++x) backward += data.x<double>().data[x] * d_x[static_cast<std::size_t>(x)];
    }
    ASSERT_NEAR(forward, backward, 0x1p-42 * static_cast<double>(y.size()));
  }
}

/// Rows and gradients have the same bits on one thread, on three, and with tasks run backwards; rows also in place.
template <class Make>
void expect_same_row_bits(const Make& make, Params& params, const std::vector<RowCase>& cases) {
  const auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
  };
  for (const RowCase& c : cases) {
    const RowData data = row_data(make, params, c);
    std::vector<std::vector<double>> seen;
    Workers three(3);
    for (const Executor& on : {Executor{}, Executor(three), backwards(4)}) {
      std::vector<double> all = rows_of<double>(make, params, c, data, on);
      const std::vector<double> d_x = backward_of<double>(make, params, c, data, on);
      all.insert(all.end(), d_x.begin(), d_x.end());
      for (std::size_t p = 0; p < params.count(); ++p) {
        all.insert(all.end(), params.grads(p).begin(), params.grads(p).end());
      }
      seen.push_back(all);
    }
    ASSERT_TRUE(same(seen[0], seen[1]));
    ASSERT_TRUE(same(seen[0], seen[2]));
    if (data.out_dim() != c.dim || c.time == 0) continue;
    std::vector<double> room;
    const View<double, 4> x = data.like_x(room);
    std::copy_n(data.x<double>().data, room.size(), room.begin());
    const auto encoding = make.template operator()<double>(params);
    turn<double>(encoding, c.side, data.at(), x, x);
    ASSERT_TRUE(same(room, rows_of<double>(make, params, c, data)));
    // A tile whose y is its x, as a fused attention may turn it.
    RowTile tile{.batch = 0, .head = 0, .row = 0, .rows = 1, .dim = c.dim, .x_stride = c.dim, .y_stride = c.dim};
    tile.side = c.side;
    std::array<double, max_axes> p{};
    for (Index axis = 0; axis < max_axes; ++axis) {
      p[static_cast<std::size_t>(axis)] = data.at().real(std::min(axis, data.at().axes() - 1), 0, 0);
      tile.at[static_cast<std::size_t>(axis)] = &p[static_cast<std::size_t>(axis)];
    }
    const RowEncoding<double> erased(encoding);
    std::vector<double> scratch(
        static_cast<std::size_t>(erased.turn_scratch == nullptr ? 0 : erased.turn_scratch(erased.self, c.dim)));
    tile.scratch = scratch.data();
    std::vector<double> row(data.x<double>().data, data.x<double>().data + c.dim);
    erased.turn(erased.self, tile, row.data(), row.data());
    ASSERT_EQ(std::memcmp(row.data(), room.data(), row.size() * sizeof(double)), 0);
  }
}

/// All of the above for an encoding that is linear in x.
template <class Make, class Reference>
void expect_row_encoding(const Make& make, Params& params, const std::vector<RowCase>& cases,
                         const Reference& reference, double tolerance = 0x1p-42) {
  expect_reference_rows(make, params, cases, reference, tolerance);
  expect_row_gradients(make, params, cases, reference);
  expect_float_row_gradients(make, params, cases);
  expect_transpose(make, params, cases);
  expect_same_row_bits(make, params, cases);
}

/// The product of a query at m with a key at n, both given, head 0, in double.
template <class E>
double row_product(const E& encoding, const std::vector<double>& q, const std::vector<double>& m,
                   const std::vector<double>& k, const std::vector<double>& n) {
  const auto dim = static_cast<Index>(q.size()), out = out_dim_of(encoding, dim);
  const auto axes = static_cast<Index>(m.size());
  std::vector<double> a(static_cast<std::size_t>(out)), b(a.size());
  turn<double>(encoding, Side::query, Positions(dense(m.data(), axes, 1, 1)), bhtd(q.data(), 1, 1, 1, dim),
               bhtd(a.data(), 1, 1, 1, out));
  turn<double>(encoding, Side::key, Positions(dense(n.data(), axes, 1, 1)), bhtd(k.data(), 1, 1, 1, dim),
               bhtd(b.data(), 1, 1, 1, out));
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

/// How far the product moves when both positions are shifted alike, at most, over `tries` random rows and places:
/// 0 (rounding) if it depends on the distance alone.
template <class E>
double shift_dependence(const E& encoding, Index dim, Index axes, int tries = 20) {
  Random random(5);
  double most = 0;
  for (int t = 0; t < tries; ++t) {
    std::vector<double> q(static_cast<std::size_t>(dim)), k(q.size()), m(static_cast<std::size_t>(axes)), n(m.size());
    for (double& x : q) x = random.uniform(-1, 1);
    for (double& x : k) x = random.uniform(-1, 1);
    for (double& x : m) x = static_cast<double>(random.integer(0, 20));
    for (double& x : n) x = static_cast<double>(random.integer(0, 20));
    const double here = row_product(encoding, q, m, k, n);
    for (std::size_t axis = 0; axis < m.size(); ++axis) {
      const auto by = static_cast<double>(random.integer(1, 30));
      m[axis] += by;
      n[axis] += by;
    }
    most = std::max(most, std::abs(row_product(encoding, q, m, k, n) - here));
  }
  return most;
}

/// By how much the norm of a row changes, relative, at most.
template <class E>
double norm_change(const E& encoding, Index dim, Index axes, int tries = 20) {
  Random random(6);
  double most = 0;
  for (int t = 0; t < tries; ++t) {
    std::vector<double> q(static_cast<std::size_t>(dim)), m(static_cast<std::size_t>(axes));
    for (double& x : q) x = random.uniform(-1, 1);
    for (double& x : m) x = static_cast<double>(random.integer(0, 50));
    double before = 0;
    for (const double x : q) before += x * x;
    most = std::max(most, std::abs(row_product(encoding, q, m, q, m) / before - 1));
  }
  return most;
}

}  // namespace bearing::test
