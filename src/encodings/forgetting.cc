#include <algorithm>
#include <bearing/encodings/forgetting.hpp>
#include <cmath>

#include "terms/checks.hpp"

namespace bearing {

using text::concat;

template <class A>
ForgettingBias<A>::ForgettingBias(Param<A, 3> log_forget, Index past)
    : log_forget_(log_forget), past_(past), time_(log_forget.value.shape[2]) {
  check_param("ForgettingBias", "log_forget", log_forget, log_forget.value.shape, "[batch, heads, time]");
  sums_.reserve(static_cast<std::size_t>(log_forget.value.size()));
  for (Index b = 0; b < log_forget.value.shape[0]; ++b) {
    for (Index h = 0; h < log_forget.value.shape[1]; ++h) {
      double sum = 0;
      for (Index t = 0; t < time_; ++t) {
        const auto f = static_cast<double>(log_forget.value(b, h, t));
        if (!std::isfinite(f)) {
          throw RangeError(concat("[ForgettingBias] log_forget: must be finite, got ", f, " for token ", t, " of head ",
                                  h, " of sequence ", b));
        }
        sum += f;
        sums_.push_back(sum);
      }
    }
  }
}

template <class A>
void ForgettingBias<A>::check(const char* function, const Problem& problem) const {
  check_param(function, "log_forget", log_forget_, {problem.batch, problem.heads, problem.k_len},
              "[batch, heads, k_len]");
  if (past_ < 0 || past_ + problem.q_len != problem.k_len) {
    throw ShapeError(concat("[", function, "] past: must be the tokens before ", problem.q_len, " queries that end ",
                            problem.k_len, " tokens, got ", past_));
  }
}

template <class A>
const double* ForgettingBias<A>::sums(const Tile<A>& tile) const {
  return sums_.data() + (tile.batch * log_forget_.value.shape[1] + tile.head) * time_;
}

template <class A>
void ForgettingBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  const double* c = sums(tile);
  for (Index i = 0; i < tile.rows; ++i) {
    const Index token = past_ + tile.row + i, before = std::clamp<Index>(token - tile.col, 0, tile.cols);
    const double c_i = c[token];
    for (Index j = 0; j < before; ++j) s[i * tile.stride + j] += static_cast<A>(c_i - c[tile.col + j]);
  }
}

template <class A>
void ForgettingBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  const Index first_token = past_ + tile.row;
  A *row_sum = tile.scratch, *col_sum = row_sum + tile.rows;
  std::fill_n(row_sum, tile.rows + tile.cols, A{0});
  for (Index i = 0; i < tile.rows; ++i) {
    const Index before = std::clamp<Index>(first_token + i - tile.col, 0, tile.cols);
    double sum = 0;
    for (Index j = 0; j < before; ++j) {
      sum += static_cast<double>(d_s[i * tile.stride + j]);
      col_sum[j] += d_s[i * tile.stride + j];
    }
    row_sum[i] = static_cast<A>(sum);
  }
  // ln f_t is in the scores with j < t ≤ i: from one t to the next, column t comes in and row t goes out.
  double sum = 0;
  for (Index t = tile.col; t + 1 < first_token + tile.rows; ++t) {
    if (t < tile.col + tile.cols) sum += static_cast<double>(col_sum[t - tile.col]);
    if (t >= first_token) sum -= static_cast<double>(row_sum[t - first_token]);
    grads.params[t + 1] += static_cast<A>(sum);
  }
}

template <class A>
void ForgettingBias<A>::collect(Index batch, Index head, const A* d_params) const {
  for (Index t = 0; t < time_; ++t) log_forget_.grad(batch, head, t) += d_params[t];
}

template class ForgettingBias<float>;
template class ForgettingBias<double>;

}  // namespace bearing
