#include <gtest/gtest.h>
#include <bearing/rows.hpp>

#include "support/described.hpp"
#include "support/guarded.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

// Every described encoding of the input: gradients, threads, instruction sets, copies, and positions that it says to
// refuse.

namespace bearing {
namespace {

using test::DescribedEncoding;
using test::Params;

constexpr Index batch = 2, time = 7;

/// Tokens in a row, or of a grid.
class Tokens {
 public:
  explicit Tokens(const DescribedEncoding& encoding, double shift = 0) : axes_(encoding.width() > 0 ? 2 : 1) {
    for (Index n = 0; n < axes_ * batch * time; ++n) {
      const Index t = n % time;
      const bool last = axes_ == 1 || n >= batch * time;
      at_.push_back(shift + static_cast<double>(axes_ == 1 ? t : last ? t % 3 : t / 3));
    }
  }
  Positions positions() const { return dense<const double>(at_.data(), axes_, batch, time); }

 private:
  Index axes_;
  std::vector<double> at_;
};

template <class A>
std::vector<A> rows_of(const Made<A>& made, const Tokens& tokens, const Executor& on = {}) {
  std::vector<A> rows(static_cast<std::size_t>(batch * time * made.input->dim));
  fill<A>(*made.input, tokens.positions(), dense(rows.data(), batch, time, made.input->dim), on);
  return rows;
}

/// The parameters' gradients of Σ w·p.
std::vector<std::vector<double>> gradients(const Made<double>& made, Params& params, const Tokens& tokens,
                                           const std::vector<double>& weights, const Executor& on = {}) {
  params.clear_grads();
  add_backward<double>(*made.input, tokens.positions(),
                       dense<const double>(weights.data(), batch, time, made.input->dim), on);
  std::vector<std::vector<double>> all;
  for (std::size_t p = 0; p < params.count(); ++p) all.push_back(params.grads(p));
  return all;
}

std::vector<double> weights_for(const Made<double>& made) {
  test::Random random(3);
  std::vector<double> weights(static_cast<std::size_t>(batch * time * made.input->dim));
  for (double& w : weights) w = random.uniform(-1, 1);
  return weights;
}

/// With a step of 2^-17 the error is 2^-34/6 of the third derivative, which is below 10^3 at these positions and
/// frequencies, and 2^-36 of the loss.
TEST(DescribedInputs, GradientsAreCentralDifferences) {
  const double step = 0x1p-17;
  Index compared = 0;
  for (const DescribedEncoding& encoding : test::described_inputs()) {
    SCOPED_TRACE(encoding.name);
    const Sizes sizes = small_sizes(encoding);
    const Tokens tokens(encoding);
    Params params = encoding.params(sizes);
    const Made<double> made = encoding.make<double>(params, sizes);
    const std::vector<double> weights = weights_for(made);
    const auto wanted = gradients(made, params, tokens, weights);
    const auto loss = [&] {
      const std::vector<double> rows = rows_of(encoding.make<double>(params, sizes), tokens);
      double sum = 0;
      for (std::size_t n = 0; n < rows.size(); ++n) sum += weights[n] * rows[n];
      return sum;
    };
    for (std::size_t p = 0; p < params.count(); ++p) {
      std::vector<double>& values = params.values(p);
      for (std::size_t n = 0; n < std::min<std::size_t>(values.size(), 100); ++n, ++compared) {
        const double value = values[n];
        values[n] = value + step;
        const double above = loss();
        values[n] = value - step;
        const double below = loss();
        values[n] = value;
        const double slope = (above - below) / (2 * step);
        ASSERT_NEAR(wanted[p][n], slope, 1e-7 * std::max(1.0, std::abs(slope))) << "parameter " << p << ", " << n;
      }
    }
  }
  EXPECT_GT(compared, 200);
}

TEST(DescribedInputs, ThreadsAndInstructionSetsGiveTheSameBits) {
  for (const DescribedEncoding& encoding : test::described_inputs()) {
    SCOPED_TRACE(encoding.name);
    const Sizes sizes = small_sizes(encoding);
    const Tokens tokens(encoding);
    std::vector<float> first;
    std::vector<std::vector<double>> first_gradients;
    test::on_every_target([&] {
      Params params = encoding.params(sizes);
      const Made<float> made = encoding.make<float>(params, sizes);
      const Made<double> exact = encoding.make<double>(params, sizes);
      const std::vector<float> rows = rows_of(made, tokens);
      const auto slopes = gradients(exact, params, tokens, weights_for(exact));
      if (first.empty()) first = rows;
      EXPECT_TRUE(test::same_bits(rows, first));
      for (const Index workers : {2, 7}) {
        test::Workers threads(workers);
        EXPECT_TRUE(test::same_bits(rows_of(made, tokens, threads), first)) << workers;
        EXPECT_EQ(gradients(exact, params, tokens, weights_for(exact), threads), slopes) << workers;
      }
    });
  }
}

TEST(DescribedInputs, CopiesGiveTheSameBitsAndMovedOnesAreRefusedOrRight) {
  for (const DescribedEncoding& encoding : test::described_inputs()) {
    SCOPED_TRACE(encoding.name);
    const Sizes sizes = small_sizes(encoding);
    const Tokens tokens(encoding);
    Params params = encoding.params(sizes);
    Made<double> made = encoding.make<double>(params, sizes);
    const std::vector<double> wanted = rows_of(made, tokens);
    ASSERT_NE(made.copy, nullptr);
    const Made<double> copy = made.copy(made), moved = made.move(made);
    EXPECT_TRUE(test::same_bits(rows_of(moved, tokens), wanted));
    try {
      EXPECT_TRUE(test::same_bits(rows_of(made, tokens), wanted));
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find("[fill] "), std::string::npos) << error.what();
    }
    made = {};
    EXPECT_TRUE(test::same_bits(rows_of(copy, tokens), wanted));
  }
}

TEST(DescribedInputs, RefuseRealPositionsWhereTheySaySo) {
  for (const DescribedEncoding& encoding : test::described_inputs()) {
    SCOPED_TRACE(encoding.name);
    Params params = encoding.params(small_sizes(encoding));
    const Made<double> made = encoding.make<double>(params, small_sizes(encoding));
    bool refused = false;
    try {
      (void)rows_of(made, Tokens(encoding, 0.25));
    } catch (const RangeError&) {
      refused = true;
    }
    EXPECT_EQ(refused, encoding.whole_positions());
  }
}

}  // namespace
}  // namespace bearing
