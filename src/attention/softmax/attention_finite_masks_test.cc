#include <gtest/gtest.h>
#include <bearing/encodings/dense_bias.hpp>

#include "support/attention_encodings.hpp"
#include "support/environment.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

// Masks that are −∞, or large numbers in its place. A score x + m is m itself where |x| is below half a unit of m: what
// such a mask hides whole has the same probability for every key. In double that is so from −1e20 on, so the reference
// is given ±1e20 for masks of every arithmetic, and rounds its scores as that arithmetic does.

namespace bearing {
namespace {

using test::AttentionTruth;
using test::Made;
using test::NamedEncoding;
using test::NamedEncodings;
using test::Params;

const NamedEncodings& encodings() {
  static const NamedEncodings all;
  return all;
}

/// `low`: far enough below the scores of a test. A unit of −1e9 is 64, one of −1e12 is 65,536.
template <class A>
std::vector<A> masks(float low = -1e9f) {
  if constexpr (std::is_same_v<A, float>)
    return {low, std::numeric_limits<float>::lowest(), -std::numeric_limits<float>::infinity(), 1e30f};
  if constexpr (std::is_same_v<A, double>) {
    return {-1e20, std::numeric_limits<float>::lowest(), std::numeric_limits<double>::lowest(),
            -std::numeric_limits<double>::infinity(), 1e200};
  }
}

/// What the reference is given for a mask.
double exact(double mask) { return std::isinf(mask) ? mask : std::copysign(1e20, mask); }

/// m for all keys in the first row, in the last, and in one between; for the first keys in others, as for padding.
template <class A>
struct MaskData {
  MaskData(const AttentionCase& c, A m)
      : shape{1, 1, c.q_len, c.k_len}, value(static_cast<std::size_t>(c.q_len * c.k_len)), grad(value.size()) {
    for (Index i = 0; i < c.q_len; ++i) {
      const bool whole = i == 0 || i == c.q_len / 2 || i + 1 == c.q_len;
      for (Index j = 0; j < (whole ? c.k_len : i % 4); ++j) value[static_cast<std::size_t>(i * c.k_len + j)] = m;
    }
  }
  DenseBias<A> bias() {
    return DenseBias<A>(Param<A, 4>{dense<const A>(value.data(), 1, 1, shape[2], shape[3]),
                                    dense(grad.data(), 1, 1, shape[2], shape[3])});
  }

  std::array<Index, 4> shape;
  std::vector<A> value, grad;
};

/// The reference's gradients of one mask, its parameters' among them.
struct MaskedTruth {
  AttentionTruth truth;
  std::vector<std::vector<double>> params;
  std::vector<double> mask;
};

template <class T>
MaskedTruth masked_truth(const NamedEncoding& encoding, const AttentionCase& c, Params& params, double mask) {
  const AttentionData<T> data(c);
  auto made = encoding.make<double>(params, c);
  const double size = test::attention_truth(data.problem(false), made.list).score_size;
  MaskData<double> dense_mask(c, exact(mask));
  made.add(dense_mask.bias());
  params.clear_grads();
  MaskedTruth wanted{test::attention_truth(data.problem(true), made.list), {}, {}};
  wanted.truth.score_size = size;  // beside the mask, which costs no digits of probabilities
  for (std::size_t p = 0; p < params.count(); ++p) wanted.params.push_back(params.grads(p));
  wanted.mask = dense_mask.grad;
  return wanted;
}

/// The forward, and the gradients of everything.
template <class T>
void expect_masked(const NamedEncoding& encoding, const AttentionCase& c, Compute<T> mask) {
  using A = Compute<T>;
  SCOPED_TRACE(encoding.name + ", mask " + std::to_string(mask) + ", " + std::to_string(sizeof(T)) + " bytes");
  Params params = encoding.params(c);
  const MaskedTruth wanted = masked_truth<T>(encoding, c, params, static_cast<double>(mask));
  const AttentionData<T> data(c);
  auto made = encoding.make<A>(params, c);
  MaskData<A> dense_mask(c, mask);
  made.add(dense_mask.bias());
  params.clear_grads();
  // Results in the arithmetic: out rounded to 16 bits would cost d_o·o its digits.
  test::expect_attention_gradients<T, A>(data, wanted.truth, made.list);
  const auto got = data.template forward<A>(made.list);
  test::expect_close(got.out, wanted.truth.out, wanted.truth.score_size, c.k_len, "out of " + describe(c));
  const double size = 16 * std::max(4.0, wanted.truth.score_size);
  test::expect_close(dense_mask.grad, wanted.mask, size, c.k_len, "the mask of " + describe(c), 1);
  for (std::size_t p = 0; p < params.count(); ++p) {
    const std::string what = "parameter " + std::to_string(p) + " of " + describe(c);
    if constexpr (std::is_same_v<A, double>)
      test::expect_close(params.grads(p), wanted.params[p], size, c.k_len, what, 1);
    if constexpr (std::is_same_v<A, float>) {
      test::expect_close(params.float_grads(p), wanted.params[p], size, c.k_len, what, 1);
    }
  }
}

/// Half a unit of −1e9 is 32.
bool has_small_scores(const NamedEncoding& encoding, const AttentionCase& c) {
  Params params = encoding.params(c);
  const auto made = encoding.make<double>(params, c);
  return test::attention_truth(AttentionData<double>(c).problem(false), made.list).score_size < 24;
}

TEST(FiniteMasks, HideRowsWholeUnderEveryEncoding) {
  for (const NamedEncoding& encoding : encodings().all()) {
    const auto cases = test::encoding_cases(encoding);
    for (std::size_t n = 0; n < std::min<std::size_t>(cases.size(), encoding.variant ? 1 : 3); ++n) {
      for (const float mask : masks<float>(has_small_scores(encoding, cases[n]) ? -1e9f : -1e12f)) {
        expect_masked<float>(encoding, cases[n], mask);
        if (n > 0) continue;
        expect_masked<Bfloat16>(encoding, cases[n], mask);
        expect_masked<Float16>(encoding, cases[n], mask);
      }
      for (const double mask : masks<double>()) expect_masked<double>(encoding, cases[n], mask);
    }
  }
}

TEST(FiniteMasks, HideRowsWholeInLongCallsWithCapsScalesAndHoles) {
  const auto visible = std::make_unique<bool[]>(4 * 100 * 270);
  for (std::size_t x = 0; x < std::size_t{4} * 100 * 270; ++x) visible[x] = x % 7 != 3;
  for (const char* name : {"nothing", "alibi", "rope", "shaw", "cope"}) {
    const NamedEncoding& encoding = encodings().find(name);
    AttentionCase c{.heads = 4, .kv_heads = encoding.kv_heads, .q_len = 100, .k_len = 270};
    c.q_first = 170;
    for (int others = 0; others < 4; ++others) {
      if (others == 1) c.options.scale = -0.3;
      if (others == 2) c.options.soft_cap = 1.5;
      if (others == 3) c.options.visible = dense<const bool>(visible.get(), 1, 4, 100, 270);
      for (const float mask : masks<float>(-1e12f)) expect_masked<float>(encoding, c, mask);
      expect_masked<double>(encoding, c, std::numeric_limits<double>::lowest());
    }
  }
}

TEST(FiniteMasks, HideRowsWholeInDecodeSteps) {
  for (const char* name : {"nothing", "alibi", "rope", "shaw"}) {
    const NamedEncoding& encoding = encodings().find(name);
    AttentionCase c{.heads = 4, .kv_heads = encoding.kv_heads, .q_len = 3, .k_len = 1200};
    if (std::string(name) == "shaw") c.k_len = 400;
    c.q_first = c.k_len - 3;
    for (const float mask : masks<float>(-1e12f)) {
      expect_masked<float>(encoding, c, mask);
      expect_masked<Float16>(encoding, c, mask);
    }
  }
}

/// m beyond a distance: a window as a bias, which goes by diagonals.
template <class A>
struct Wall {
  using Arithmetic = A;
  static constexpr bool constant = true;
  A mask;

  void bias(Index, Index n, const double* distance, A* b) const {
    for (Index i = 0; i < n; ++i) b[i] = std::abs(distance[i]) > 10 ? mask : A{0};
  }
};

/// The queries at the end are beyond of all keys.
template <class T>
void expect_walled(AttentionCase c, Compute<T> mask, const AttentionCase& exact_case) {
  SCOPED_TRACE("mask " + std::to_string(mask));
  const Wall<double> wall{exact(static_cast<double>(mask))};
  AttentionTruth truth = test::attention_truth(AttentionData<T>(exact_case).problem(true), with(wall));
  truth.score_size = 4;
  const Wall<Compute<T>> given{mask};
  test::expect_attention_gradients<T>(AttentionData<T>(c), truth, with(given));
}

TEST(FiniteMasks, HideRowsWholeByDiagonals) {
  AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 100, .k_len = 60};
  for (const double size : {1.0, 4.0}) {
    c.size = size;
    test::on_every_target([&] {
      for (const float mask : masks<float>()) expect_walled<float>(c, mask, c);
      for (const double mask : masks<double>()) expect_walled<double>(c, mask, c);
    });
  }
}

TEST(FiniteMasks, LeaveSinksTheirShare) {
  // A sink as low as the mask is one key more; one of ordinary size has all.
  for (const float mask : masks<float>()) {
    for (const bool low : {true, false}) {
      const std::vector<double> given(4, low ? static_cast<double>(mask) : 0.5), other(4, low ? exact(mask) : 0.5);
      AttentionCase c{.heads = 4, .kv_heads = 2, .q_len = 100, .k_len = 60};
      AttentionCase exact_case = c;
      c.options.sinks = {dense(given.data(), 4)}, exact_case.options.sinks = {dense(other.data(), 4)};
      expect_walled<float>(c, mask, exact_case);
    }
  }
}

TEST(FiniteMasks, GiveTheSameBitsForAnyNumberOfWorkers) {
  AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 700, .k_len = 600, .dim = 16, .value_dim = 16};
  const AttentionData<float> data(c);
  const Wall<float> wall{-1e9f};
  const auto alone = data.backward(with(wall));
  for (const Index workers : {2, 5, 64}) {
    EXPECT_TRUE(alone.same_bits_as(data.backward(with(wall), test::backwards(workers)))) << workers;
  }
}

/// attention_backward() of keys first … end − 1 with given results: the largest |d_v|, and all finite.
double largest_of_slice(const AttentionData<float>& data, const test::AttentionGot<float, float>& results, Index first,
                        Index end, const TermList<float>& terms) {
  const AttentionCase& c = data.the_case();
  AttentionInputs<float> in = data.inputs();
  for (View<const float, 4>* x : {&in.k, &in.v}) x->data += first * x->stride[2], x->shape[2] = end - first;
  in.k_positions = Positions(first);
  std::vector<float> d_out(results.out.size(), 1.0f);
  const auto rows = [&](auto& x, Index n) { return bhtd(x.data(), c.batch, c.heads, n, c.dim); };
  std::vector<float> d_q(d_out.size()), d_k(static_cast<std::size_t>(c.heads * (end - first) * c.dim)), d_v(d_k.size());
  const AttentionResults<float> given{rows(results.out, c.q_len), dense(results.lse.data(), c.batch, c.heads, c.q_len),
                                      rows(std::as_const(d_out), c.q_len)};
  attention_backward<float>(in, given, {rows(d_q, c.q_len), rows(d_k, end - first), rows(d_v, end - first)}, terms,
                            data.options());
  double most = 0;
  for (const auto* numbers : {&d_q, &d_k, &d_v}) {
    for (const float x : *numbers) {
      EXPECT_TRUE(std::isfinite(x));
      if (numbers == &d_v) most = std::max(most, std::abs(static_cast<double>(x)));
    }
  }
  return most;
}

/// The results of two slices with the same numbers, and those merged.
void merge_with_itself(test::AttentionGot<float, float>& got) {
  const auto part = got;
  merge<float>(bhtd<const float>(part.out.data(), 1, 2, 20, 8), dense<const float>(part.lse.data(), 1, 2, 20),
               bhtd(got.out.data(), 1, 2, 20, 8), dense(got.lse.data(), 1, 2, 20));
  for (std::size_t x = 0; x < got.out.size(); ++x) EXPECT_NEAR(got.out[x], part.out[x], 1e-6);
}

TEST(FiniteMasks, OfSlicesLeaveTheOthersTheirShare) {
  const AttentionCase far{.q_len = 20, .k_len = 64, .q_first = 1000};  // beyond the wall
  const AttentionData<float> data(far);
  const Wall<float> high{-8192}, low{-1e9f}, lowest{std::numeric_limits<float>::lowest()};
  auto got = data.forward(with(high));
  // The results are those of other keys, which are less hidden: these here have no part in them.
  EXPECT_EQ(largest_of_slice(data, got, 0, 64, with(low)), 0);
  EXPECT_EQ(largest_of_slice(data, got, 0, 64, with(lowest)), 0);
  // Another slice with the same weights: half is left, except for eight units of 2^-24 in an lse of 8192.
  const double whole = largest_of_slice(data, got, 0, 64, with(high));
  merge_with_itself(got);
  EXPECT_NEAR(largest_of_slice(data, got, 0, 64, with(high)), whole / 2, whole / 2 * 8 * 0x1p-24 * 8192);
}

TEST(FiniteMasks, OfSlicesStayBounded) {
  // How a row is shared between two slices that are hidden whole is lost. No probability is above 1, nor any NaN.
  const AttentionCase far{.q_len = 20, .k_len = 64, .q_first = 1000};
  const AttentionData<float> data(far);
  for (const float mask : {-1e9f, std::numeric_limits<float>::lowest()}) {
    const Wall<float> wall{mask};
    auto got = data.forward(with(wall));
    merge_with_itself(got);
    for (const float lse : got.lse) EXPECT_EQ(lse, mask);
    EXPECT_LE(largest_of_slice(data, got, 0, 64, with(wall)), 20);
  }
}

TEST(FiniteMasks, RaiseNoFlagThatMayTrap) {
  AttentionCase c{.q_len = 40, .k_len = 300};
  const AttentionCase step{.q_len = 2, .k_len = 300};
  for (const float mask : masks<float>()) {
    for (const AttentionCase& one : {c, step}) {
      const AttentionData<float> data(one);
      MaskData<float> rows(one, mask);
      const auto bias = rows.bias();
      const Wall<float> wall{mask};
      test::on_every_target([&] {
        std::feclearexcept(FE_ALL_EXCEPT);
        (void)data.backward(with(bias));
        (void)data.backward(with(wall));
        EXPECT_EQ(std::fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW), 0) << mask;
      });
    }
  }
}

TEST(FiniteMasks, LetNoProbabilityExceedOne) {
  // Whatever lse is given: here one that is far too low.
  const AttentionCase c{.q_len = 20, .k_len = 64};
  const AttentionData<float> data(c);
  auto results = data.forward({});
  for (const float lse : {-100.0f, -1e6f, -1e30f}) {
    std::fill(results.lse.begin(), results.lse.end(), lse);
    EXPECT_LE(largest_of_slice(data, results, 0, 64, {}), 20);
  }
}

}  // namespace
}  // namespace bearing
