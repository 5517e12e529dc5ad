#include "attention/amx/amx_grads.hpp"

#include <algorithm>
#include <utility>

#include "attention/amx/amx_forward.hpp"

namespace bearing {

namespace amx = attend::amx;

namespace {

/// to [dim, rows], rows i and i + 16 of 32 side by side ← from [rows, dim], rows in whole tiles
void turn(Index rows, Index dim, const Bfloat16* from, Bfloat16* to) {
  for (Index first = 0; first < rows; first += 32) {
    for (Index i = first; i < first + 16; ++i, from += dim) {
      Bfloat16* pair = to + 2 * i - first;
      for (Index d = 0; d < dim; ++d, pair += rows) pair[0] = from[d], pair[1] = from[16 * dim + d];
    }
    from += 16 * dim;
  }
}

/// Pieces of each number: one where all that is given has one.
int pieces_of(const BackwardPlan<float>& plan) {
  const bool narrow = plan.results.d_out.type() == NumberType::bf16;
  return narrow ? AmxForward::pieces_of(plan.scores) : amx::float_pieces;
}

/// Whether a worker keeps a head's packed keys and values, which every block of queries asks for: where 4 MiB hold
/// them, or 12 MiB in pieces, which take longer to pack.
bool keeps_packed(const BackwardPlan<float>& plan) {
  const Problem& problem = plan.scores.call.problem;
  constexpr Index most = (Index{4} << 20) / static_cast<Index>(sizeof(Bfloat16));
  return problem.k_len * ((plan.want_q ? 2 : 1) * problem.dim + problem.value_dim) <= most;
}

}  // namespace

bool AmxGrads::serves(const BackwardPlan<float>& plan) {
  const bool by_rows = plan.scores.tiled && any_looks_at_rows(plan.scores.call.acting);
  return AmxForward::serves(plan.scores) && !by_rows && plan.anchors.empty();
}

AmxGrads::AmxGrads(const BackwardPlan<float>& plan, Index keys) : plan_(&plan), pack_{amx::kernels(), pieces_of(plan)} {
  const Problem& problem = plan.scores.call.problem;
  const Index dim = problem.dim, value_dim = problem.value_dim;
  keeps_ = keeps_packed(plan);
  const Index columns = keeps_ ? amx::padded(problem.k_len) : plan.cols;
  const Index rows = amx::padded(plan.rows), slab = amx::padded(plan.slab), blocks = pieces(keys, plan.cols);
  const auto room = [&](Index numbers) { return AlignedArray<Bfloat16>(pack_.room(numbers)); };
  packed_.resize(size_if(keeps_, plan.key_blocks()));
  keys_ = room(columns * dim);
  values_ = room(columns * value_dim);
  q_ = room(rows * dim);
  d_out_ = room(rows * value_dim);
  if (plan.want_q) {
    key_rows_ = room(columns * dim);
    d_x_rows_ = room(slab * plan.cols);
  }
  pairs_ = room(slab * plan.cols);
  if (plan.want_k) {
    q_turned_ = room(rows * dim);
    d_keys_ = AlignedArray<float>(blocks * dim * plan_->cols);
  }
  if (plan.want_v) {
    d_out_turned_ = room(rows * value_dim);
    d_values_ = AlignedArray<float>(blocks * value_dim * plan_->cols);
  }
}

bool AmxGrads::open_keys(Index b, Index kv_head, Index first) {
  if (!keeps_) {
    packed_first_ = first;
    return true;
  }
  if (b != b_ || kv_head != kv_head_) std::fill(packed_.begin(), packed_.end(), char{0});
  b_ = b, kv_head_ = kv_head;
  return std::exchange(packed_[size(first / plan_->cols)], char{1}) == 0;
}

void AmxGrads::pack(Index j, Index n, const float* keys, Index k_stride, const float* values, Index v_stride) {
  const Index dim = plan_->scores.call.problem.dim, value_dim = plan_->scores.call.problem.value_dim;
  pack_.keys(n, dim, keys, k_stride, keys_.data() + packed_at(j, dim));
  pack_.keys(n, value_dim, values, v_stride, values_.data() + packed_at(j, value_dim));
  if (plan_->want_q) pack_.values(n, dim, keys, k_stride, key_rows_.data() + packed_at(j, dim));
}

void AmxGrads::open_queries(Index rows, const float* q, const float* d_out) {
  queries_ = amx::padded(rows);
  const auto open = [&](Index dim, const float* from, Bfloat16* packed, bool wanted, Bfloat16* turned) {
    pack_.queries(rows, dim, from, dim, packed);
    if (!wanted) return;
    if (pack_.pieces == 1) {
      turn(queries_, dim, packed, turned);
    } else {
      pack_.kernels->split_turned({rows, dim, from, dim, turned});
    }
  };
  open(plan_->scores.call.problem.dim, q, q_.data(), plan_->want_k, q_turned_.data());
  open(plan_->scores.call.problem.value_dim, d_out, d_out_.data(), plan_->want_v, d_out_turned_.data());
}

void AmxGrads::scores(Columns rows, Columns cols, float factor, float* s, float* d_p, Index stride) const {
  const Problem& problem = plan_->scores.call.problem;
  const Index n = amx::padded(rows.end - rows.first), width = amx::padded(cols.end - cols.first);
  const auto product = [&](Index dim, const AlignedArray<Bfloat16>& left, const AlignedArray<Bfloat16>& right,
                           float* to) {
    pack_.kernels->multiply({.pieces = pack_.pieces,
                             .rows = n,
                             .cols = width,
                             .depth = dim,
                             .a = left.data() + pack_.room(rows.first * dim),
                             .a_stride = dim,
                             .b = right.data() + packed_at(cols.first, dim),
                             .b_column = dim / 32 * amx::tile_size,
                             .b_depth = amx::tile_size,
                             .c = to,
                             .c_stride = stride});
  };
  product(problem.dim, q_, keys_, s);
  product(problem.value_dim, d_out_, values_, d_p);
  if (factor != 1) pack_.kernels->scale(n, width, factor, s, stride);
}

void AmxGrads::add_grads(Columns rows, Columns cols, const float* p, const float* d_x, Index stride, float* d_q,
                         bool keys, bool values) {
  const Problem& problem = plan_->scores.call.problem;
  const Index n = rows.end - rows.first, width = amx::padded(cols.end - cols.first);
  pack_.kernels->narrow({.pieces = pack_.pieces,
                         .rows = n,
                         .cols = width,
                         .from = d_x,
                         .stride = stride,
                         .scale = plan_->scores.call.scale,
                         .by_row = d_q == nullptr ? nullptr : d_x_rows_.data(),
                         .by_pair = pairs_.data()});
  if (d_q != nullptr) {
    pack_.kernels->multiply({.pieces = pack_.pieces,
                             .rows = amx::padded(n),
                             .cols = problem.dim,
                             .depth = width,
                             .a = d_x_rows_.data(),
                             .a_stride = width,
                             .b = key_rows_.data() + packed_at(cols.first, problem.dim),
                             .b_column = amx::tile_size,
                             .b_depth = problem.dim / 16 * amx::tile_size,
                             .c = d_q,
                             .c_stride = problem.dim,
                             .add = true});
  }
  if (keys) add_key_product(rows, cols, problem.dim, q_turned_, d_keys_);
  if (!values) return;
  pack_.kernels->narrow(
      {.pieces = pack_.pieces, .rows = n, .cols = width, .from = p, .stride = stride, .by_pair = pairs_.data()});
  add_key_product(rows, cols, problem.value_dim, d_out_turned_, d_values_);
}

void AmxGrads::add_key_product(Columns rows, Columns cols, Index dim, const AlignedArray<Bfloat16>& turned,
                               AlignedArray<float>& sums) const {
  const Index n = amx::padded(rows.end - rows.first), width = amx::padded(cols.end - cols.first);
  pack_.kernels->multiply({.pieces = pack_.pieces,
                           .rows = dim,
                           .cols = width,
                           .depth = n,
                           .a = turned.data() + pack_.room(rows.first),
                           .a_stride = queries_,
                           .b = pairs_.data(),
                           .b_column = amx::tile_size,
                           .b_depth = width / 16 * amx::tile_size,
                           .c = sums.data() + sums_at(dim, cols.first),
                           .c_stride = plan_->cols,
                           .add = true});
}

void AmxGrads::open_grads(Index first, Index end) {
  sums_first_ = first;
  const Index blocks = pieces(end - first, plan_->cols), dim = plan_->scores.call.problem.dim,
              value_dim = plan_->scores.call.problem.value_dim;
  if (plan_->want_k) std::fill_n(d_keys_.data(), blocks * dim * plan_->cols, 0.0f);
  if (plan_->want_v) std::fill_n(d_values_.data(), blocks * value_dim * plan_->cols, 0.0f);
}

Index AmxGrads::sums_at(Index dim, Index j) const {
  const Index block = (j - sums_first_) / plan_->cols;
  return block * dim * plan_->cols + (j - sums_first_) % plan_->cols;
}

void AmxGrads::rows_of(const AlignedArray<float>& sums, Index dim, Index j, Index n, float* rows) const {
  const float* from = sums.data() + sums_at(dim, j);
  for (Index i = 0; i < n; ++i) {
    for (Index d = 0; d < dim; ++d) rows[i * dim + d] = from[d * plan_->cols + i];
  }
}

}  // namespace bearing
