#pragma once

#include <bearing/rows.hpp>

#include "support/guarded.hpp"
#include "support/terms.hpp"

// What every encoding of the input is tested for, given how to make it from its parameters and what its reference says
// of one number: agreement with the reference on every SIMD target, gradients against central differences of the
// reference, all four types and any strides, the same bits for any executor.

namespace bearing::test {

/// What a reference is told about one number.
struct InputPoint {
  Index b, t, d;
  const double* at;  ///< the token's position, per axis
};

struct InputCase {
  Index batch = 1, time = 1;
  Place place = Place::offsets;
  Index axes = 1;
  Index first = 0;  ///< offsets
};

/// One token, an odd length, more than one tile of 64, several sequences; consecutive, shuffled and real positions.
inline std::vector<InputCase> input_cases(std::vector<Place> places, Index axes = 1) {
  std::vector<InputCase> cases;
  for (const Place place : places) {
    cases.push_back({1, 1, place, axes, 0});
    cases.push_back({2, 11, place, axes, 3});
    cases.push_back({1, 131, place, axes, 0});
    cases.push_back({3, 24, place, axes, 1});
  }
  return cases;
}

/// Positions of a case and weights for its loss, the same in both arithmetics.
class InputData {
 public:
  /// Positions other than offsets lie in [0, last].
  InputData(const InputCase& c, Index dim, double last, std::uint64_t seed = 5) : c_(c), dim_(dim) {
    Random random(seed);
    for (Index x = 0; x < c.axes * c.batch * c.time; ++x) {
      at_.push_back(c.place == Place::real ? random.uniform(0, last)
                                           : static_cast<double>(random.integer(0, static_cast<Index>(last))));
    }
    for (Index x = 0; x < c.batch * c.time * dim; ++x) {
      weights_.push_back(static_cast<double>(static_cast<float>(random.uniform(-1, 1))));
    }
    weights32_.assign(weights_.begin(), weights_.end());
    for (const double w : weights_) positive_.push_back(std::abs(w));
  }

  Positions at() const {
    if (c_.place == Place::offsets && c_.axes == 1) return Positions(c_.first);
    return Positions(dense(at_.data(), c_.axes, c_.batch, c_.time));
  }
  template <class A>
  View<const A, 3> weights() const {
    if constexpr (std::is_same_v<A, double>) return dense(weights_.data(), c_.batch, c_.time, dim_);
    if constexpr (std::is_same_v<A, float>) return dense(weights32_.data(), c_.batch, c_.time, dim_);
  }
  View<const double, 3> positive() const { return dense(positive_.data(), c_.batch, c_.time, dim_); }

  /// body(point) for every number, rows in order.
  template <class Body>
  void over_points(const Body& body) const {
    const Positions positions = at();
    std::array<double, max_axes> place{};
    for (Index b = 0; b < c_.batch; ++b) {
      for (Index t = 0; t < c_.time; ++t) {
        for (Index axis = 0; axis < c_.axes; ++axis) {
          place[static_cast<std::size_t>(axis)] = positions.real(axis, b, t);
        }
        for (Index d = 0; d < dim_; ++d) body(InputPoint{b, t, d, place.data()});
      }
    }
  }

 private:
  InputCase c_;
  Index dim_;
  std::vector<double> at_, weights_, positive_;
  std::vector<float> weights32_;
};

/// The rows of an encoding as fill() gives them, in T.
template <class T, class E>
std::vector<T> rows_of(const E& encoding, const InputData& data, const InputCase& c, const Executor& on = {}) {
  std::vector<T> rows(static_cast<std::size_t>(c.batch * c.time * encoding.dim()));
  fill<T>(encoding, data.at(), dense(rows.data(), c.batch, c.time, encoding.dim()), on);
  return rows;
}

/// Double to `tolerance` relative to `size` (1 and the number's own); float to two roundings more.
template <class Make, class Reference>
void expect_reference_rows(const Make& make, Params& params, const std::vector<InputCase>& cases,
                           const Reference& reference, double tolerance, double last = 150) {
  for (const InputCase& c : cases) {
    on_every_target([&] {
      const auto encoding64 = make.template operator()<double>(params);
      const auto encoding32 = make.template operator()<float>(params);
      const InputData data(c, encoding64.dim(), last);
      const std::vector<double> rows64 = rows_of<double>(encoding64, data, c);
      const std::vector<float> rows32 = rows_of<float>(encoding32, data, c);
      std::size_t x = 0;
      data.over_points([&](const InputPoint& point) {
        const double truth = reference(params, point), size = std::max(1.0, std::abs(truth));
        ASSERT_NEAR(rows64[x], truth, tolerance * size) << "token " << point.t << ", column " << point.d;
        ASSERT_NEAR(static_cast<double>(rows32[x]), truth, (tolerance + 0x1p-23) * size)
            << "float, token " << point.t << ", column " << point.d;
        ++x;
      });
    });
  }
}

/// fill() and add() in T, at any strides, are those in the type of the arithmetic, rounded once.
template <class T, class E>
void expect_type(const E& encoding, const InputCase& c, double last) {
  using A = Compute<T>;
  const InputData data(c, encoding.dim(), last);
  const std::vector<A> p = rows_of<A>(encoding, data, c);
  for (const Layout layout : writable_layouts) {
    SCOPED_TRACE(name(layout));
    Guarded<T> x({c.batch, 1, c.time, encoding.dim()}, layout);
    const View<T, 4> four = x.view();
    const View<T, 3> rows{
        four.data, {four.shape[0], four.shape[2], four.shape[3]}, {four.stride[0], four.stride[2], four.stride[3]}};
    Random random(3);
    x.fill(random);
    const std::vector<T> before = x.values();
    add<T>(encoding, data.at(), rows);
    const std::vector<T> sums = x.values();
    fill<T>(encoding, data.at(), rows);
    const std::vector<T> filled = x.values();
    for (std::size_t i = 0; i < p.size(); ++i) {
      const T sum(static_cast<A>(before[i]) + p[i]), alone(p[i]);
      ASSERT_EQ(std::memcmp(&sums[i], &sum, sizeof(T)), 0) << "add, number " << i;
      ASSERT_EQ(std::memcmp(&filled[i], &alone, sizeof(T)), 0) << "fill, number " << i;
    }
    EXPECT_TRUE(x.guards_intact());
  }
}

template <class Make>
void expect_every_type(const Make& make, Params& params, const std::vector<InputCase>& cases, double last = 150) {
  for (const InputCase& c : cases) {
    expect_type<double>(make.template operator()<double>(params), c, last);
    expect_type<float>(make.template operator()<float>(params), c, last);
    expect_type<Bfloat16>(make.template operator()<float>(params), c, last);
    expect_type<Float16>(make.template operator()<float>(params), c, last);
  }
  const auto encoding = make.template operator()<float>(params);
  const Index axes = cases.front().axes;
  std::vector<double> none(1);
  const Positions nowhere(dense(none.data(), axes, 0, 5));
  fill<float>(encoding, nowhere, View<float, 3>{nullptr, {0, 5, encoding.dim()}, {0, 0, 1}});  // nothing to do
  add<float>(encoding, nowhere, View<float, 3>{nullptr, {0, 5, encoding.dim()}, {0, 0, 1}});
}

/// Central differences of the loss Σ w·p, with p from the reference, for every element of every parameter. With a step
/// h of 2^-20 the error is h²/6 of the third derivative and 2^-53/h of the loss: at positions up to 24, 3e-9 and 1e-9
/// times the loss, which is some ten.
template <class Make, class Reference>
void expect_input_gradients(const Make& make, Params& params, const std::vector<InputCase>& cases,
                            const Reference& reference, double tolerance = 1e-7) {
  const double step = 0x1p-20;
  for (const InputCase& c : cases) {
    if (c.time > 24) continue;  // the loss is evaluated twice for every element
    const Index dim = make.template operator()<double>(params).dim();
    const InputData data(c, dim, 12);
    params.clear_grads();
    {
      const auto encoding = make.template operator()<double>(params);
      add_backward<double>(encoding, data.at(), data.weights<double>());
    }
    const View<const double, 3> w = data.weights<double>();
    const auto loss = [&] {
      double sum = 0;
      data.over_points(
          [&](const InputPoint& point) { sum += w(point.b, point.t, point.d) * reference(params, point); });
      return sum;
    };
    for (std::size_t p = 0; p < params.count(); ++p) {
      for (std::size_t x = 0; x < params.values(p).size(); ++x) {
        double& value = params.values(p)[x];
        const double kept = value;
        value = kept + step;
        const double above = loss();
        value = kept - step;
        const double below = loss();
        value = kept;
        const double slope = (above - below) / (2 * step);
        ASSERT_NEAR(params.grads(p)[x], slope, tolerance * std::max(1.0, std::abs(slope)))
            << "parameter " << p << " element " << x << ", time " << c.time;
        ++compared_gradients();
      }
    }
  }
}

/// Gradients in float are those in double, within 2^-18 of the size of what was summed, for which the gradient of
/// all-positive weights stands (`at_least` where terms change their signs anyway).
template <class Make>
void expect_float_input_gradients(const Make& make, Params& params, const std::vector<InputCase>& cases,
                                  double at_least = 1, double last = 12) {
  for (const InputCase& c : cases) {
    const auto encoding64 = make.template operator()<double>(params);
    const auto encoding32 = make.template operator()<float>(params);
    const InputData data(c, encoding64.dim(), last);
    params.clear_grads();
    add_backward<double>(encoding64, data.at(), data.positive());
    std::vector<std::vector<double>> sizes;
    for (std::size_t p = 0; p < params.count(); ++p) sizes.push_back(params.grads(p));
    params.clear_grads();
    add_backward<double>(encoding64, data.at(), data.weights<double>());
    add_backward<float>(encoding32, data.at(), data.weights<float>());
    for (std::size_t p = 0; p < params.count(); ++p) {
      for (std::size_t x = 0; x < params.grads(p).size(); ++x) {
        const double truth = params.grads(p)[x], size = std::max({at_least, std::abs(truth), std::abs(sizes[p][x])});
        ASSERT_NEAR(static_cast<double>(params.float_grads(p)[x]), truth, 0x1p-18 * size)
            << "parameter " << p << " element " << x;
      }
    }
  }
}

/// Rows and gradients have the same bits on one thread, on three, and with tasks run backwards.
template <class Make>
void expect_same_input_bits_for_any_executor(const Make& make, Params& params, const std::vector<InputCase>& cases,
                                             double last = 150) {
  for (const InputCase& c : cases) {
    std::vector<std::vector<float>> seen;
    Workers three(3);
    for (const Executor& on : {Executor{}, Executor(three), backwards(4)}) {
      params.clear_grads();
      const auto encoding = make.template operator()<float>(params);
      const InputData data(c, encoding.dim(), last);
      std::vector<float> all = rows_of<float>(encoding, data, c, on);
      add_backward<float>(encoding, data.at(), data.weights<float>(), on);
      for (std::size_t p = 0; p < params.count(); ++p) {
        all.insert(all.end(), params.float_grads(p).begin(), params.float_grads(p).end());
      }
      seen.push_back(all);
    }
    EXPECT_TRUE(same_bits(seen[0], seen[1]));
    EXPECT_TRUE(same_bits(seen[0], seen[2]));
  }
}

}  // namespace bearing::test
