#include "attention/softmax/softmax_kernels.hpp"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/random.hpp"
#include "support/targets.hpp"

// Every kernel against the loop that its comment states, at sizes around vectors, panels and blocks of rows, in rows
// with gaps whose contents must stay as they were.

namespace bearing::attend {
namespace {

using test::on_every_target;
using test::Random;

constexpr double guard = -77;
constexpr Index gap = 5;
const std::vector<Index> columns = {1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129};
const std::vector<Index> dims = {1, 6, 8, 64, 80, 128};

template <class A>
constexpr double unit = std::numeric_limits<A>::epsilon() / 2;  // what one rounding may be off, relatively
template <class A>
constexpr A infinity = std::numeric_limits<A>::infinity();

/// Rows of numbers, a gap of guards before the first and behind each.
template <class A>
struct Rows {
  Rows(Index n, Index cols) : count(n), width(cols), memory(size(gap + n * (cols + gap)), A(guard)) {}
  Rows(Index n, Index cols, Random& random, double most = 1) : Rows(n, cols) {
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < cols; ++j) at(i, j) = static_cast<A>(random.uniform(-most, most));
    }
  }
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }
  Index stride() const { return width + gap; }
  A* row(Index i) { return memory.data() + gap + i * stride(); }
  A& at(Index i, Index j) { return memory[size(gap + i * stride() + j)]; }
  A at(Index i, Index j) const { return memory[size(gap + i * stride() + j)]; }
  double number(Index i, Index j) const { return static_cast<double>(at(i, j)); }
  /// Nothing but columns [first, end) was written.
  void expect_rest(Index first, Index end) const {
    for (Index x = 0; x < gap; ++x) ASSERT_EQ(memory[size(x)], A(guard));
    for (Index i = 0; i < count; ++i) {
      for (Index j = 0; j < stride(); ++j) {
        if (j >= first && j < end) continue;
        ASSERT_EQ(at(i, j), A(guard)) << "row " << i << ", column " << j;
      }
    }
  }

  Index count, width;
  std::vector<A> memory;
};

template <class A>
Index panel_before(Index j) {
  return j / panel_width<A>() * panel_width<A>();
}
template <class A>
Index panel_after(Index j) {
  return panel_before<A>(j + panel_width<A>() - 1);
}

template <class A>
std::vector<A> packed(Rows<A>& keys) {
  std::vector<A> to(static_cast<std::size_t>(panel_after<A>(keys.count) * keys.width + 1), A(guard));
  pack<A>(keys.count, keys.width, keys.row(0), keys.stride(), to.data());
  return to;
}

template <class A>
void expect_pack() {
  Random random(1);
  const Index width = panel_width<A>();
  EXPECT_EQ(64 % width, 0);
  for (const Index cols : columns) {
    for (const Index dim : dims) {
      Rows<A> keys(cols, dim, random);
      const std::vector<A> to = packed(keys);
      for (Index j = 0; j < panel_after<A>(cols); ++j) {
        for (Index x = 0; x < dim; ++x) {
          const A got = to[static_cast<std::size_t>((j / width * dim + x) * width + j % width)];
          ASSERT_EQ(got, j < cols ? keys.at(j, x) : A(0)) << cols << " x " << dim << ": " << j << ", " << x;
        }
      }
      ASSERT_EQ(to.back(), A(guard));
    }
  }
}

TEST(AttentionKernels, PackMakesPanelsOfColumns) {
  on_every_target([] {
    expect_pack<float>();
    expect_pack<double>();
  });
}

// A sum of n products, each rounded with its sum, is off by at most (n + 2)·unit of the sum of magnitudes.
template <class A>
void expect_scores(Index rows, Index cols, Index dim, A alpha) {
  SCOPED_TRACE(testing::Message() << rows << " rows, " << cols << " columns, dim " << dim);
  Random random(2);
  Rows<A> q(rows, dim, random), keys(cols, dim, random);
  const std::vector<A> k = packed(keys);
  for (const Index first : {Index{0}, panel_before<A>(cols - 1)}) {
    Rows<A> s(rows, panel_after<A>(cols));
    scores<A>(rows, first, cols, dim, alpha, q.row(0), q.stride(), k.data(), s.row(0), s.stride());
    for (Index i = 0; i < rows; ++i) {
      for (Index j = first; j < cols; ++j) {
        double sum = 0, magnitude = 0;
        for (Index x = 0; x < dim; ++x) {
          const double product = static_cast<double>(alpha) * q.number(i, x) * keys.number(j, x);
          sum += product, magnitude += std::abs(product);
        }
        ASSERT_NEAR(s.number(i, j), sum, static_cast<double>(dim + 2) * unit<A> * magnitude);
      }
    }
    s.expect_rest(first, panel_after<A>(cols));
  }
}

template <class A>
void expect_all_scores() {
  for (Index rows = 1; rows <= 14; ++rows) {
    for (const Index dim : dims) expect_scores<A>(rows, 33, dim, A(0.3));
    for (const Index cols : columns) expect_scores<A>(rows, cols, 6, A(1));
  }
}

TEST(AttentionKernels, ScoresAreTheLoops) {
  on_every_target([] {
    expect_all_scores<float>();
    expect_all_scores<double>();
  });
}

template <class A>
Values<A> whole_rows(Rows<A>& v) {
  return {v.row(0), 0, v.stride(), v.stride(), panel_width<A>()};
}

template <class A>
void expect_accumulate(Index rows, Index first, Index end, Index dim) {
  SCOPED_TRACE(testing::Message() << rows << " rows, columns " << first << " to " << end << ", dim " << dim);
  Random random(3);
  Rows<A> p(rows, end, random), v(end, dim, random), out(rows, dim, random), rescale(1, rows, random);
  const Rows<A> before = out;
  for (Index j = 0; j < first; ++j) {
    for (Index x = 0; x < dim; ++x) v.at(j, x) = infinity<A>;  // not looked at
  }
  accumulate<A>(rows, first, end, dim, p.row(0), p.stride(), rescale.row(0), whole_rows(v), out.row(0), out.stride());
  for (Index i = 0; i < rows; ++i) {
    for (Index x = 0; x < dim; ++x) {
      double sum = rescale.number(0, i) * before.number(i, x), magnitude = std::abs(sum);
      for (Index j = first; j < end; ++j) {
        sum += p.number(i, j) * v.number(j, x);
        magnitude += std::abs(p.number(i, j) * v.number(j, x));
      }
      ASSERT_NEAR(out.number(i, x), sum, static_cast<double>(end - first + 3) * unit<A> * magnitude);
    }
  }
  out.expect_rest(0, dim);

  // The same values in panels behind two rows of others: the same bits.
  const Index width = panel_width<A>(), skipped = 2, count = skipped + end;
  std::vector<A> panels(static_cast<std::size_t>(count * dim), infinity<A>);
  for (Index j = 0; j < end; ++j) {
    for (Index x = 0; x < dim; ++x) {
      const Index first_x = x / width * width, wide = std::min(width, dim - first_x);
      panels[static_cast<std::size_t>(first_x * count + (skipped + j) * wide + x - first_x)] = v.at(j, x);
    }
  }
  Rows<A> again = before;
  accumulate<A>(rows, first, end, dim, p.row(0), p.stride(), rescale.row(0),
                {panels.data(), skipped, width, dim % width, count * width}, again.row(0), again.stride());
  EXPECT_EQ(again.memory, out.memory);
}

template <class A>
void expect_all_accumulate() {
  for (Index rows = 1; rows <= 14; ++rows) {
    for (const Index dim : dims) expect_accumulate<A>(rows, 3, 20, dim);
    for (const Index cols : columns) expect_accumulate<A>(rows, 0, cols, 21);
  }
  expect_accumulate<A>(7, 9, 9, 70);
  for (Index dim = 1; dim < 70; ++dim) expect_accumulate<A>(7, 0, 5, dim);
}

TEST(AttentionKernels, AccumulateIsTheLoop) {
  on_every_target([] {
    expect_all_accumulate<float>();
    expect_all_accumulate<double>();
  });
}

/// A strip of rows and what it is made of; a row's numbers are the same wherever it stands in a strip.
template <class A>
struct Weighed {
  Weighed(Index n, Index seen, Random& random, double most)
      : s(n, panel_after<A>(seen)),
        first(static_cast<std::size_t>(n), 0),
        end(static_cast<std::size_t>(n), seen),
        max(static_cast<std::size_t>(n), -infinity<A>),
        sum(static_cast<std::size_t>(n), A(0)),
        rescale(static_cast<std::size_t>(n), A(guard)),
        cols(seen) {
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < panel_after<A>(cols); ++j) s.at(i, j) = static_cast<A>(random.uniform(-most, most));
    }
  }
  /// Columns from `from` on, rows [begin, begin + n).
  void weigh_rows(Index begin, Index n, Index from, A scale, const A* bias) {
    weigh<A>({.rows = n,
              .first = from,
              .end = cols,
              .row_first = first.data() + begin,
              .row_end = end.data() + begin,
              .s = s.row(begin),
              .stride = s.stride(),
              .log2_scale = scale,
              .bias = bias == nullptr ? nullptr : bias - begin,
              .max = max.data() + begin,
              .sum = sum.data() + begin,
              .rescale = rescale.data() + begin});
  }

  Rows<A> s;
  std::vector<Index> first, end;
  std::vector<A> max, sum, rescale;
  Index cols;
};

/// 2^x is off by the polynomial's error and by 4 roundings at most: of its leading coefficient and of the sum next to
/// it, halved by f ≤ 1/2, of their product where that is not fused, and of the last sum.
template <class A>
constexpr double exp2_error = (sizeof(A) == 4 ? 9.2e-8 : 3.4e-18) + 4 * unit<A>;
/// Weights below 2^lowest are 0, and below 2^(lowest + 1) may be.
template <class A>
constexpr double lowest = attend::least_exponent<A>;

/// One weight: its exponent is a difference, rounded, times the scale, rounded.
template <class A>
void expect_weight(A got, double exponent) {
  if (exponent < lowest<A>) {
    ASSERT_EQ(got, A(0)) << exponent;
  } else if (exponent >= lowest<A> + 1 || got != A(0)) {
    const double exact = std::exp2(exponent), off = 2 * unit<A> * std::abs(exponent) * std::log(2.0);
    ASSERT_NEAR(static_cast<double>(got), exact, exact * (off + exp2_error<A>)) << exponent;
  }
}

/// Scores in (−most, most), each row seeing some of them, over two blocks of columns.
template <class A>
void expect_weigh(Index rows, Index cols, double most, bool biased) {
  SCOPED_TRACE(testing::Message() << rows << " rows, " << cols << " columns, scores to " << most);
  Random random(4);
  const A scale = A(0.7);
  std::vector<double> before(static_cast<std::size_t>(rows), -HUGE_VAL), total(static_cast<std::size_t>(rows), 0);
  std::vector<A> last_max(static_cast<std::size_t>(rows), -infinity<A>), last_sum(static_cast<std::size_t>(rows), A(0));
  for (int block = 0; block < 2; ++block) {
    const Index from = block * panel_before<A>(cols / 2);
    Weighed<A> w(rows, cols, random, most);
    w.max = last_max, w.sum = last_sum;
    for (std::size_t i = 0; i < w.first.size(); ++i) {
      w.first[i] = random.integer(from, cols - 1), w.end[i] = random.integer(w.first[i], cols);
      if (i % 3 == 0) w.first[i] = from, w.end[i] = cols;
    }
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < from; ++j) w.s.at(i, j) = A(guard);  // not of this block
    }
    std::vector<A> bias(static_cast<std::size_t>(rows + panel_after<A>(cols)));
    for (A& number : bias) number = static_cast<A>(random.uniform(-most, most));
    const auto bias_of = [&](Index i, Index j) { return bias[static_cast<std::size_t>(j - i + rows - 1)]; };
    const Rows<A> s = w.s;
    w.weigh_rows(0, rows, from, scale, biased ? bias.data() + rows - 1 : nullptr);

    w.s.expect_rest(from, panel_after<A>(cols));
    for (Index i = 0; i < rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto seen = [&](Index j) { return biased ? A(s.at(i, j) + bias_of(i, j)) : s.at(i, j); };
      A max = last_max[at];
      for (Index j = w.first[at]; j < w.end[at]; ++j) max = std::max(max, seen(j));
      ASSERT_EQ(w.max[at], max);
      double sum = 0;
      for (Index j = from; j < panel_after<A>(cols); ++j) {
        if (j < w.first[at] || j >= w.end[at]) {
          ASSERT_EQ(w.s.at(i, j), A(0)) << "hidden column " << j;
          continue;
        }
        expect_weight<A>(w.s.at(i, j),
                         static_cast<double>(scale) * (static_cast<double>(seen(j)) - static_cast<double>(max)));
        sum += w.s.number(i, j);
      }
      const double down = static_cast<double>(scale) * (static_cast<double>(last_max[at]) - static_cast<double>(max));
      if (last_max[at] == max) {
        ASSERT_EQ(w.rescale[at], A(1));
      } else {
        expect_weight<A>(w.rescale[at], down);
      }
      sum += static_cast<double>(w.rescale[at]) * static_cast<double>(last_sum[at]);
      ASSERT_NEAR(static_cast<double>(w.sum[at]), sum, static_cast<double>(cols + 3) * unit<A> * sum);
    }
    last_max = w.max, last_sum = w.sum;
  }
}

template <class A>
void expect_all_weigh() {
  for (const bool biased : {false, true}) {
    for (const Index cols : columns) expect_weigh<A>(13, cols, 3, biased);
    for (Index rows = 1; rows < 13; ++rows) expect_weigh<A>(rows, 33, 3, biased);
    expect_weigh<A>(6, 300, 1e4, biased);
    expect_weigh<A>(6, 300, 100, biased);
  }
}

TEST(AttentionKernels, WeighIsTheSoftmaxOfWhatRowsSee) {
  on_every_target([] {
    expect_all_weigh<float>();
    expect_all_weigh<double>();
  });
}

template <class A>
void expect_exp2() {
  // The first column is the largest, 0, so that a weight is 2^score.
  Random random(5);
  const Index cols = 4096;
  const A smallest = std::ldexp(A(1), attend::least_exponent<A>);
  for (int turn = 0; turn < 8; ++turn) {
    const double from = std::vector<double>{1, 2, 130, 1e4, -lowest<A>, -lowest<A> + 2, 5000, 1e-3}[std::size_t(turn)];
    Weighed<A> w(1, cols, random, from);
    for (Index j = 0; j < cols; ++j) w.s.at(0, j) = -std::abs(w.s.at(0, j));
    if (turn == 5) {  // all around the smallest
      for (Index j = 1; j < cols; ++j) w.s.at(0, j) = static_cast<A>(lowest<A> + 2 - 4.0 * double(j) / double(cols));
    }
    w.s.at(0, 0) = 0;
    const Rows<A> s = w.s;
    w.weigh_rows(0, 1, 0, A(1), nullptr);
    ASSERT_EQ(w.max[0], A(0));
    ASSERT_EQ(w.s.at(0, 0), A(1));
    for (Index j = 0; j < cols; ++j) {
      const A weight = w.s.at(0, j);
      ASSERT_TRUE(weight == A(0) || weight >= smallest) << "too small a number of 2^" << s.at(0, j);
      if (s.number(0, j) < lowest<A> + 1) continue;
      const long double exact = std::exp2(static_cast<long double>(s.at(0, j)));
      ASSERT_LE(std::abs(static_cast<long double>(weight) - exact), exact * exp2_error<A>) << s.at(0, j);
    }
  }
}

TEST(AttentionKernels, WeightsAreExactToRoundingAndNeverTiny) {
  on_every_target([] {
    expect_exp2<float>();
    expect_exp2<double>();
  });
}

template <class A>
void expect_infinities() {
  Random random(6);
  const A nan = std::numeric_limits<A>::quiet_NaN();
  Weighed<A> w(5, 70, random, 2);
  for (Index j = 0; j < 70; ++j) w.s.at(0, j) = -infinity<A>;  // row 0 sees −∞ only
  w.first[1] = w.end[1] = 40;                                  // row 1 nothing
  for (Index j = 0; j < 70; j += 2) w.s.at(2, j) = -infinity<A>;
  w.s.at(3, 33) = nan;
  // A number's payload must not turn it into another one.
  const std::uint64_t payload = 0x7FF8'0000'0000'07A2;
  if constexpr (sizeof(A) == 8) {
    std::memcpy(&w.s.at(3, 33), &payload, sizeof(payload));
  }
  w.weigh_rows(0, 5, 0, A(1.5), nullptr);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(w.max[i], -infinity<A>);
    EXPECT_EQ(w.sum[i], A(0));
    EXPECT_EQ(w.rescale[i], A(1));
    for (Index j = 0; j < panel_after<A>(70); ++j) ASSERT_EQ(w.s.at(Index(i), j), A(0));
  }
  for (Index j = 0; j < 70; ++j) ASSERT_EQ(w.s.at(2, j) == A(0), j % 2 == 0);
  EXPECT_TRUE(std::isnan(w.sum[3]));
  EXPECT_TRUE(std::isnan(w.s.at(3, 33)));
  for (const std::size_t i : {std::size_t{2}, std::size_t{4}}) EXPECT_TRUE(std::isfinite(w.sum[i]) && w.sum[i] >= 1);

  // Rows that had nothing begin with the next keys, those that had something keep it.
  const std::vector<A> max = w.max, sum = w.sum;
  Weighed<A> next(5, 70, random, 2);
  next.max = max, next.sum = sum;
  next.first[2] = next.end[2] = 0;
  next.weigh_rows(0, 5, 0, A(1.5), nullptr);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) EXPECT_EQ(next.rescale[i], A(0));
  EXPECT_EQ(next.rescale[2], A(1));
  EXPECT_EQ(next.max[2], max[2]);
  EXPECT_EQ(next.sum[2], sum[2]);
  EXPECT_TRUE(std::isnan(next.sum[3]));
  EXPECT_TRUE(std::isfinite(next.sum[4]));
}

TEST(AttentionKernels, InfinitiesHideAndNaNsStayInTheirRow) {
  on_every_target([] {
    expect_infinities<float>();
    expect_infinities<double>();
  });
}

template <class A>
bool same(const std::vector<A>& a, const std::vector<A>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(A)) == 0;
}

template <class A>
void expect_same_bits_in_any_strip() {
  Random random(7);
  const Index rows = 13, cols = 129, dim = 80;
  Rows<A> q(rows, dim, random, 3), keys(cols, dim, random, 3), v(cols, dim, random), out(rows, dim, random);
  const std::vector<A> k = packed(keys);
  std::vector<A> bias(static_cast<std::size_t>(rows + panel_after<A>(cols)), A(0.25));
  struct Result {
    std::vector<A> s, max, sum, out;
  };
  const auto in_strips_of = [&](Index strip) {
    Weighed<A> w(rows, cols, random, 1);
    Rows<A> o = out;
    for (Index i = 0; i < rows; ++i) w.first[std::size_t(i)] = i, w.end[std::size_t(i)] = cols - 2 * i;
    for (Index i = 0; i < rows; i += strip) {
      const Index n = std::min(strip, rows - i);
      scores<A>(n, 0, cols, dim, A(0.1), q.row(i), q.stride(), k.data(), w.s.row(i), w.s.stride());
      cap<A>(n, 0, cols, A(2), w.s.row(i), w.s.stride());
      w.weigh_rows(i, n, 0, A(1.4), bias.data() + rows - 1);
      accumulate<A>(n, 0, cols, dim, w.s.row(i), w.s.stride(), w.rescale.data() + i, whole_rows(v), o.row(i),
                    o.stride());
    }
    return Result{w.s.memory, w.max, w.sum, o.memory};
  };
  const Result whole = in_strips_of(rows);
  for (const Index strip : {Index{1}, Index{2}, Index{5}, Index{6}, Index{12}}) {
    const Result cut = in_strips_of(strip);
    EXPECT_TRUE(same(whole.s, cut.s) && same(whole.max, cut.max) && same(whole.sum, cut.sum) &&
                same(whole.out, cut.out))
        << "strips of " << strip;
  }
}

TEST(AttentionKernels, ARowHasTheSameBitsInAnyStrip) {
  on_every_target([] {
    expect_same_bits_in_any_strip<float>();
    expect_same_bits_in_any_strip<double>();
  });
}

template <class A>
void expect_cap() {
  Random random(8);
  const A bound = 30;
  for (const double most : {1e-6, 0.1, 20.0, 1e3, 1e9}) {
    Rows<A> s(3, panel_after<A>(70), random, most);
    s.at(0, 0) = 0, s.at(0, 1) = A(1e-30), s.at(0, 2) = -A(1e-30), s.at(1, 3) = infinity<A>;
    s.at(1, 4) = -infinity<A>, s.at(2, 5) = std::numeric_limits<A>::quiet_NaN();
    const Rows<A> from = s;
    cap<A>(3, 0, 70, bound, s.row(0), s.stride());
    s.expect_rest(0, panel_after<A>(70));
    for (Index i = 0; i < 3; ++i) {
      for (Index j = 0; j < 70; ++j) {
        // Roundings of 1 / cap, the quotient, 2·log2(e), the exponent (neither of which tanh magnifies), of three in
        // the polynomial and one of its product, of e, 2 + e, their quotient, the result; and the polynomial's error.
        const double exact = 30 * std::tanh(from.number(i, j) / 30), off = 12 * unit<A> + 1.1e-8 * (sizeof(A) == 4);
        if (std::isnan(from.at(i, j))) {
          ASSERT_TRUE(std::isnan(s.at(i, j)));
        } else {
          ASSERT_NEAR(s.number(i, j), exact, off * std::abs(exact)) << from.at(i, j);
        }
      }
    }
  }
}

TEST(AttentionKernels, CapIsTheHyperbolicTangent) {
  on_every_target([] {
    expect_cap<float>();
    expect_cap<double>();
  });
}

}  // namespace
}  // namespace bearing::attend
