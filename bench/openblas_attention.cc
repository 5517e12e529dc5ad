#include "openblas_attention.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "simd/denormals.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "openblas_attention.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bearing::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// e^x for x ≤ 0, to about 2 units in the last place: 2^n · e^r, |r| ≤ ln(2)/2, e^r as Taylor's first terms, the last
/// ones adjusted for the interval.
template <class D, class V>
V exponential(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto bounded = hn::Max(x, hn::Set(d, -87.0f));
  const auto n = hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504f)));
  const auto r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), bounded));
  auto p = hn::MulAdd(hn::Set(d, 1.3888889e-3f), r, hn::Set(d, 8.3333333e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1666667e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666667e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(hn::MulAdd(p, r, hn::Set(d, 1.0f)), r, hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, power));
}

/// s_j ← e^(s_j − slope·|i − j| − max) over the first n of a row, 0 up to `end`; returns 1 / their sum. Rows have room
/// for whole vectors.
float Weights(float* s, std::size_t n, std::size_t end, float slope, float i) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t j = n; j < (n + lanes - 1) / lanes * lanes; ++j) s[j] = -1e30f;
  auto most = hn::Set(d, -1e30f);
  for (std::size_t j = 0; j < n; j += lanes) {
    auto x = hn::LoadU(d, s + j);
    if (slope != 0) {
      x = hn::NegMulAdd(hn::Abs(hn::Sub(hn::Iota(d, static_cast<float>(j)), hn::Set(d, i))), hn::Set(d, slope), x);
      hn::StoreU(x, d, s + j);
    }
    most = hn::Max(most, x);
  }
  most = hn::MaxOfLanes(d, most);
  auto sum = hn::Zero(d);
  const auto least = hn::Set(d, -87.0f);
  for (std::size_t j = 0; j < n; j += lanes) {
    const auto x = hn::Sub(hn::LoadU(d, s + j), most);
    const auto e = hn::IfThenElseZero(hn::Gt(x, least), exponential(d, x));
    hn::StoreU(e, d, s + j);
    sum = hn::Add(sum, e);
  }
  for (std::size_t j = n; j < end; ++j) s[j] = 0;
  return 1 / hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace bearing::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::bench {
namespace {

HWY_EXPORT(Weights);

constexpr int row_major = 101, as_it_is = 111, transposed = 112;

struct Problem {
  AttentionInputs<float> in;
  View<float, 4> out;
  bool causal;
  const float* slopes;
  Index rows;  // of a block
};

/// Scores of a block, with room behind each row for a whole vector.
float* room(Index n) {
  thread_local std::vector<float> scores;
  if (scores.size() < static_cast<std::size_t>(n)) scores.resize(static_cast<std::size_t>(n));
  return scores.data();
}

void one_block(OpenBlas::Sgemm sgemm, const Problem& p, Index head, Index first) {
  const simd::FlushDenormals flushed;
  const Index dim = p.in.q.shape[3], k_len = p.in.k.shape[2];
  const Index rows = std::min(p.rows, p.in.q.shape[2] - first);
  const Index cols = p.causal ? std::min(k_len, first + rows) : k_len;
  const Index stride = (k_len + 63) / 16 * 16;  // not a multiple of a page: rows would share lines of a cache
  float* const s = room(rows * stride);
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  sgemm(row_major, as_it_is, transposed, rows, cols, dim, scale, &p.in.q(Index{0}, head, first, Index{0}),
        p.in.q.stride[2], &p.in.k(Index{0}, head, Index{0}, Index{0}), p.in.k.stride[2], 0, s, stride);
  std::vector<float> factors(static_cast<std::size_t>(rows));
  for (Index i = 0; i < rows; ++i) {
    const Index seen = p.causal ? std::min(cols, first + i + 1) : cols;
    factors[static_cast<std::size_t>(i)] =
        HWY_DYNAMIC_DISPATCH(Weights)(s + i * stride, static_cast<std::size_t>(seen), static_cast<std::size_t>(cols),
                                      p.slopes == nullptr ? 0 : p.slopes[head], static_cast<float>(first + i));
  }
  float* const o = &p.out(Index{0}, head, first, Index{0});
  sgemm(row_major, as_it_is, as_it_is, rows, dim, cols, 1, s, stride, &p.in.v(Index{0}, head, Index{0}, Index{0}),
        p.in.v.stride[2], 0, o, p.out.stride[2]);
  for (Index i = 0; i < rows; ++i) {
    for (Index d = 0; d < dim; ++d) o[i * p.out.stride[2] + d] *= factors[static_cast<std::size_t>(i)];
  }
}

void run(OpenBlas::Sgemm sgemm, const Problem& p, Index heads, const Executor& on) {
  const Index blocks = (p.in.q.shape[2] + p.rows - 1) / p.rows;
  // The last blocks first: the longest ones, where the mask is causal.
  parallel(on, heads * blocks,
           [&](Index task) { one_block(sgemm, p, task % heads, (blocks - 1 - task / heads) * p.rows); });
}

}  // namespace

OpenBlas::OpenBlas(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) throw std::runtime_error("cannot load " + path);
  const auto find = [&](const char* name) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) throw std::runtime_error(path + " has no " + name);
    return symbol;
  };
  sgemm_ = reinterpret_cast<Sgemm>(find("scipy_cblas_sgemm64_"));
  reinterpret_cast<void (*)(int)>(find("scipy_openblas_set_num_threads64_"))(1);  // blocks run side by side instead
  using Text = const char* (*)();
  const std::string config = reinterpret_cast<Text>(find("scipy_openblas_get_config64_"))();
  described_ = config.substr(0, config.find(' ', config.find(' ') + 1)) + " with its kernels for " +
               reinterpret_cast<Text>(find("scipy_openblas_get_corename64_"))();
}

std::function<void()> OpenBlas::attention(const AttentionInputs<float>& in, View<float, 4> out, bool causal,
                                          const float* slopes, const Executor& on) const {
  const Index heads = in.q.shape[1];
  Problem best{in, out, causal, slopes, 0};
  double least = 0;
  for (const Index rows : {32, 64, 128, 256, 512}) {
    Problem tried = best;
    tried.rows = rows;
    run(sgemm_, tried, 1, {});  // memory present, caches warm
    const auto start = std::chrono::steady_clock::now();
    run(sgemm_, tried, 1, {});
    const double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (best.rows == 0 || time < least) best.rows = rows, least = time;
  }
  return [sgemm = sgemm_, best, heads, &on] { run(sgemm, best, heads, on); };
}

}  // namespace bearing::bench
#endif
