#include "attention/amx/amx_forward.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "attention/shared/extents.hpp"

namespace bearing {

namespace amx = attend::amx;

namespace {

/// Fewer queries leave tiles half empty, and keys packed for nothing.
constexpr Index least_queries = amx::strip_rows;
/// Keys that are packed at once; whole tiles.
constexpr Index pack_cols = 128;

/// pack(from) with row j where it lies: of bfloat16, or of float.
template <class F>
void as_stored(const HeadRows<float>& rows, Index b, Index h, Index j, const F& pack) {
  rows.same() ? pack(rows.row(b, h, j)) : pack(static_cast<const Bfloat16*>(rows.address(b, h, j)));
}

float log2_scale(const AttentionCall<float>& call) { return call.scale * std::numbers::log2e_v<float>; }

}  // namespace

bool AmxForward::serves(const AttentionPlan<float>& plan) {
  const AttentionCall<float>& call = plan.call;
  if (amx::kernels() == nullptr || plan.tiled || call.options.soft_cap > 0) return false;
  if (call.value_rows.size > 0) return false;  // one piece would round turned values once more
  for (Index b = 0; b < call.problem.batch; ++b) {
    if (plan.visibility.holes(b)) return false;
  }
  return call.problem.q_len >= least_queries && amx::usable(call.problem.dim, call.problem.value_dim, log2_scale(call));
}

int AmxForward::pieces_of(const AttentionPlan<float>& plan) {
  return plan.call.q.type() == NumberType::bf16 ? 1 : amx::float_pieces;
}

/// In pieces keys are half again as large as floats, and those of a long sequence come from the third cache: more
/// queries meet them each time, if what is kept of these stays below a MiB.
Index AmxForward::block_rows(const AttentionPlan<float>& plan) {
  const Problem& problem = plan.call.problem;
  const bool wide = std::max({problem.dim, problem.value_dim, plan.call.in_dim}) > 128;
  return pieces_of(plan) == 1 || wide ? plan.extents.rows : std::min<Index>(problem.q_len, 320);
}

AmxForward::AmxForward(const AttentionPlan<float>& plan)
    : plan_(&plan),
      pack_{amx::kernels(), pieces_of(plan)},
      hidden_(plan.visibility, plan.call.problem),
      queries_(plan.call.q),
      keys_(plan.call.k),
      values_(plan.call.v),
      query_turner_(plan.call.rows, *plan.call.q_turned_at, Side::query, plan.extents.rows, plan.call.in_dim),
      key_turner_(plan.call.rows, *plan.call.k_turned_at, Side::key, pack_cols, plan.call.in_dim),
      diagonals_(plan),
      log2_scale_(log2_scale(plan.call)) {
  const Problem& problem = plan.call.problem;
  const Index rows = plan.extents.rows, columns = amx::padded(problem.k_len);
  q_ = AlignedArray<Bfloat16>(pack_.room(amx::padded(rows) * problem.dim));
  packed_keys_ = AlignedArray<Bfloat16>(pack_.room(columns * problem.dim));
  packed_values_ = AlignedArray<Bfloat16>(pack_.room(columns * problem.value_dim));
  out_ = AlignedArray<float>(amx::padded(rows) * problem.value_dim);
  scratch_ = AlignedArray<float>(amx::scratch_size);
  const Index at_once = std::max(rows, pack_cols);
  loaded_.resize(size(at_once * std::max(plan.call.in_dim, problem.value_dim)));
  if (query_turner_.turns()) turned_.resize(size(at_once * problem.dim));
  if (plan.call.acting.size > 0 && problem.k_len > 0) bias_.resize(size(problem.q_len + problem.k_len - 1));
  for (auto* each : {&max_, &sum_, &rounded_sum_}) each->resize(size(amx::padded(rows)));
  row_first_.resize(size(rows)), row_end_.resize(size(rows));
  ready_.resize(size(pieces(problem.k_len, pack_cols)));
}

FinishedRows<float> AmxForward::block(Index b, Index h, Index row) {
  const Problem& problem = plan_->call.problem;
  const Index rows = std::min(plan_->extents.rows, problem.q_len - row);
  open_head(b, h);
  open_queries(b, h, row, rows);
  begin(h);
  Columns all;
  for (Index i = 0; i < rows; ++i) {
    const Columns sees = plan_->visibility.of(b, row + i);
    row_first_[size(i)] = sees.first, row_end_[size(i)] = sees.end;
    all.reach_over(sees);
  }
  if (!all.empty()) {
    ready(all);
    pack_.kernels->attend({.pieces = pack_.pieces,
                           .rows = rows,
                           .first = all.first,
                           .end = all.end,
                           .dim = problem.dim,
                           .value_dim = problem.value_dim,
                           .q = q_.data(),
                           .keys = packed_keys_.data(),
                           .values = packed_values_.data(),
                           .row_first = row_first_.data(),
                           .row_end = row_end_.data(),
                           .scale = log2_scale_,
                           .bias = bias_.empty() ? nullptr : bias_.data() + problem.q_len - 1 - row,
                           .max = max_.data(),
                           .sum = sum_.data(),
                           .rounded_sum = rounded_sum_.data(),
                           .out = out_.data(),
                           .scratch = scratch_.data()});
  }
  const float* divisor = pack_.pieces == 1 ? rounded_sum_.data() : sum_.data();
  return {b, h, row, rows, out_.data(), divisor, max_.data(), sum_.data(), std::numbers::ln2_v<float>};
}

void AmxForward::open_head(Index b, Index h) {
  const Index group = plan_->call.group();
  if (b == b_ && h == h_) return;
  if (b != b_ || h / group != h_ / group) std::fill(ready_.begin(), ready_.end(), 0);
  b_ = b, h_ = h;
  hidden_.open(b, h / group);
  if (bias_.empty()) return;
  diagonals_.open(b, h);
  const float* natural = diagonals_.at(plan_->call.problem.q_len - 1, 0);
  for (std::size_t x = 0; x < bias_.size(); ++x) {
    const float bias = natural[x] * std::numbers::log2e_v<float>;
    bias_[x] = std::isnan(bias) ? std::numeric_limits<float>::quiet_NaN() : bias;
  }
}

void AmxForward::open_queries(Index b, Index h, Index row, Index rows) {
  const Index dim = plan_->call.problem.dim;
  if (!query_turner_.turns() && as_packed(queries_)) {
    as_stored(queries_, b, h, row,
              [&](const auto* from) { pack_.queries(rows, dim, from, queries_.row_stride(), q_.data()); });
    return;
  }
  queries_.load(b, h, row, rows, loaded_.data());
  if (query_turner_.turns()) {
    query_turner_.turn(b, h, row, rows, loaded_.data(), plan_->call.in_dim, turned_.data());
  }
  pack_.queries(rows, dim, query_turner_.turns() ? turned_.data() : loaded_.data(), dim, q_.data());
}

/// A sink is a weight that is there before the first key, for a maximum that is a whole number.
void AmxForward::begin(Index h) {
  const auto& sinks = plan_->call.options.sinks.value;
  float max = -std::numeric_limits<float>::infinity(), sum = 0;
  if (sinks.data != nullptr && sinks(h) != max) {
    const float logit = sinks(h) * std::numbers::log2e_v<float>;
    max = std::ceil(logit);
    sum = std::exp2(logit - max);
  }
  std::fill(max_.begin(), max_.end(), max);
  std::fill(sum_.begin(), sum_.end(), sum);
  std::fill(rounded_sum_.begin(), rounded_sum_.end(), sum);
  std::fill_n(out_.data(), out_.size(), 0.0f);
}

void AmxForward::ready(Columns cols) {
  for (Index first = cols.first / pack_cols * pack_cols; first < cols.end; first += pack_cols) {
    char& done = ready_[size(first / pack_cols)];
    if (done == 0) pack_block(first);
    done = 1;
  }
}

bool AmxForward::packs_direct(const HeadRows<float>& rows, Index first, Index n) {
  bool direct = as_packed(rows) && !rows.paged();
  for (Index j = first; direct && hidden_.any() && j < first + n; ++j) {
    direct = !(rows.wild(b_, h_ / plan_->call.group(), j) && hidden_(j));
  }
  return direct;
}

/// Keys that do not exist, or that nobody sees, are zeros: what lies in their place may be anything.
void AmxForward::pack_block(Index first) {
  const AttentionCall<float>& call = plan_->call;
  const Columns exist = plan_->visibility.keys(b_);
  const Index begin = std::max(first, exist.first), end = std::min(first + pack_cols, exist.end), n = end - begin;
  const Index dim = call.problem.dim, value_dim = call.problem.value_dim, kv_head = h_ / call.group();
  Bfloat16* keys = packed_keys_.data() + pack_.room(amx::packed_at(first, dim));
  Bfloat16* values = packed_values_.data() + pack_.room(amx::packed_at(first, value_dim));

  if (begin == first && !key_turner_.turns() && packs_direct(keys_, first, n)) {
    as_stored(keys_, b_, kv_head, first, [&](const auto* from) { pack_.keys(n, dim, from, keys_.row_stride(), keys); });
  } else {
    std::vector<float>& rows = key_turner_.turns() ? turned_ : loaded_;
    float* to = rows.data() + (begin - first) * dim;
    float* in = key_turner_.turns() ? loaded_.data() : to;
    keys_.load(b_, kv_head, begin, n, in);
    hidden_.clear(begin, n, call.in_dim, in);
    if (key_turner_.turns()) key_turner_.turn(b_, kv_head, begin, n, loaded_.data(), call.in_dim, to);
    std::fill(rows.data(), to, 0.0f);
    pack_.keys(end - first, dim, rows.data(), dim, keys);
  }
  if (begin == first && packs_direct(values_, first, n)) {
    as_stored(values_, b_, kv_head, first,
              [&](const auto* from) { pack_.values(n, value_dim, from, values_.row_stride(), values); });
  } else {
    float* to = loaded_.data() + (begin - first) * value_dim;
    values_.load(b_, kv_head, begin, n, to);
    hidden_.clear(begin, n, value_dim, to);
    std::fill(loaded_.data(), to, 0.0f);
    pack_.values(end - first, value_dim, loaded_.data(), value_dim, values);
  }
}

}  // namespace bearing
