#pragma once

#include <bearing/attention.hpp>
#include <functional>
#include <string>

namespace bearing::bench {

/// OpenBLAS as a shared library brings it, NumPy's with its prefix.
class OpenBlas {
 public:
  /// Throws std::runtime_error for a library that lacks what is needed.
  explicit OpenBlas(const std::string& path);

  /// softmax(QKᵀ)V in blocks of rows: two calls of sgemm for each and one pass between, of which there are as many
  /// at a time as the executor has workers. `slopes`: ALiBi's, null for none. The size of the blocks is the one that
  /// was fastest for one head, of those whose scores fit a cache.
  std::function<void()> attention(const AttentionInputs<float>& in, View<float, 4> out, bool causal,
                                  const float* slopes, const Executor& on) const;

  const std::string& described() const { return described_; }

  using Sgemm = void (*)(int order, int trans_a, int trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
                         float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                         float* c, std::int64_t ldc);

 private:
  Sgemm sgemm_ = nullptr;
  std::string described_;
};

}  // namespace bearing::bench
