#include "attention/linear/decay.hpp"

#include <utility>

#include "attention/linear/decay_kernels.hpp"
#include "attention/shared/extents.hpp"

namespace bearing::linear {

Run run_from(Index row, Index end, const Index* visible) {
  const Index base = block_start(visible[row]);
  const Index *begin = visible + row, *behind = std::lower_bound(begin, visible + end, base + block_tokens);
  return {row, behind - begin, base};
}
Run run_before(Index end, Index row, const Index* visible) {
  const Index base = block_start(visible[end - 1]);
  const Index first = std::lower_bound(visible + row, visible + end, base) - visible;
  return {first, end - first, base};
}

namespace {

/// A product of parts, as long as it counts.
double product(double a, double b) {
  const double both = a * b;
  return both < least_part<double> ? 0 : both;
}
/// x as A. The zero is chosen before the conversion: a compiler may convert first otherwise, to a denormal.
template <class A>
A part(double x) {
  return static_cast<A>(x < least_part<A> ? 0.0 : x);
}

/// Where the state stands that a call begins with.
template <class A>
double start(const Call<A>& call, Index b) {
  const Problem& p = call.problem;
  return (p.k_len > 0 ? p.k_positions->real(0, b, 0) : p.q_positions->real(0, b, 0)) - 1;
}

/// Where the steps of tokens [first, first + rows) begin and end.
template <class A>
void place_steps(const Call<A>& call, Side side, Index b, Index first, Index rows, double* from, double* to) {
  const Positions &keys = *call.problem.k_positions, &queries = *call.problem.q_positions;
  const Index* visible = call.visible_of(b);
  for (Index t = 0; t < rows; ++t) {
    const Index before = side == Side::key ? first + t : visible[first + t];
    from[t] = before > 0 ? keys.real(0, b, before - 1) : start(call, b);
    // A query that no key of the call stands before may stand before the state too, and sees it as it is.
    to[t] = side == Side::key ? keys.real(0, b, first + t) : std::max(queries.real(0, b, first + t), from[t]);
  }
}

/// Adds a term's decays to logs [rows, channels]; room: [rows].
template <class A>
void add_log_decay(const Term<A>& term, StepTile tile, Index channels, double* logs, double* room) {
  if (term.by_channel || channels == 1) {
    tile.channels = channels;
    return term.log_decay(term.self, tile, logs);
  }
  std::fill_n(room, tile.rows, 0.0);
  term.log_decay(term.self, tile, room);
  for (Index t = 0; t < tile.rows; ++t) {
    for (Index c = 0; c < channels; ++c) logs[t * channels + c] += room[t];
  }
}

/// parts = e^logs, which are at most 0: φ does that, in vectors.
void parts_of(const std::vector<double>& logs, Index n, double* parts) {
  features(FeatureMap::elu_plus_one, n, logs.data(), parts);
}

}  // namespace

template <class A>
Decay<A>::Decay(const Call<A>& call)
    : call_(call),
      dim_(call.problem.dim),
      channels_(call.channels()),
      logs_(size(block_tokens * channels_)),
      known_logs_(logs_.size()),
      parts_(logs_.size()),
      prefix_(size((block_tokens + 1) * channels_)),
      between_(by_channel() ? 0 : size((block_tokens + 1) * block_tokens)),
      own_(size(block_tokens)),
      room_(size(3 * block_tokens)),
      to_end_(block_tokens * channels_),
      total_(std::max<Index>(dim_, 1)),
      steps_(block_tokens * channels_),
      to_start_(block_tokens * channels_),
      within_(block_tokens * block_tokens) {}

template <class A>
void Decay<A>::block(Index first, Index rows) {
  if (first == first_ && rows == rows_) return;
  first_ = first, rows_ = rows;
  std::fill(logs_.begin(), logs_.end(), 0.0);
  StepTile tile{.batch = b_, .head = kv_, .row = first, .rows = rows, .side = Side::key};
  double *from = room_.data(), *to = from + block_tokens;
  place_steps(call_, Side::key, b_, first, rows, from, to);
  tile.from = from, tile.to = to;
  for (const Term<A>& term : call_.decays) add_log_decay(term, tile, channels_, logs_.data(), to + block_tokens);
  if (rows == known_ && logs_ == known_logs_) return;  // positions that rise evenly: as in the block before
  known_ = rows;
  known_logs_ = logs_;
  multiply_up();
}

template <class A>
void Decay<A>::multiply_up() {
  const Index n = channels_;
  parts_of(logs_, rows_ * n, parts_.data());
  for (double& x : parts_) x = product(x, 1);
  for (Index x = 0; x < rows_ * n; ++x) steps_[x] = part<A>(parts_[size(x)]);
  std::fill_n(prefix_.begin(), n, 1.0);
  for (Index x = 0; x < rows_ * n; ++x) prefix_[size(x + n)] = product(prefix_[size(x)], parts_[size(x)]);
  for (Index d = 0; d < dim_; ++d) total_[d] = part<A>(prefix_[size(rows_ * n + (n > 1 ? d : 0))]);
  std::vector<double>& rest = own_;  // of one channel
  for (Index c = 0; c < n; ++c) {
    rest[0] = 1;
    for (Index j = rows_; j-- > 0;) {
      to_end_[j * n + c] = part<A>(rest[0]);
      rest[0] = product(rest[0], parts_[size(j * n + c)]);
    }
  }
  for (Index seen = 1; seen <= rows_ && !by_channel(); ++seen) {
    double *row = between_.data() + seen * block_tokens, *before = row - block_tokens;
    for (Index j = 0; j + 1 < seen; ++j) row[j] = product(before[j], parts_[size(seen - 1)]);
    row[seen - 1] = 1;
  }
}

template <class A>
void Decay<A>::queries(const Run& run) {
  queries_ = run.rows;
  const Index n = channels_, *visible = call_.visible_of(b_) + run.row;
  std::vector<double>& logs = logs_;  // which known_logs_ has, if they are wanted again
  std::fill_n(logs.begin(), run.rows, 0.0);
  StepTile tile{.batch = b_, .head = kv_, .row = run.row, .rows = run.rows, .side = Side::query};
  tile.from = room_.data(), tile.to = room_.data() + block_tokens;
  place_steps(call_, Side::query, b_, run.row, run.rows, room_.data(), room_.data() + block_tokens);
  for (const Term<A>& term : call_.decays) {
    if (!term.counts_tokens) term.log_decay(term.self, tile, logs.data());
  }
  parts_of(logs, run.rows, own_.data());
  // What a query loses behind its last key divides out, and would only be cut.
  if (call_.normalised() && call_.options.epsilon == 0) std::fill_n(own_.begin(), run.rows, 1.0);
  for (Index i = 0; i < run.rows; ++i) {
    const Index seen = seen_[size(i)] = visible[i] - run.base;
    for (Index c = 0; c < n; ++c) {
      to_start_[i * n + c] = part<A>(product(own_[size(i)], prefix_[size(seen * n + c)]));
    }
    if (by_channel()) continue;
    const double* between = between_.data() + seen * block_tokens;
    for (Index j = 0; j < seen; ++j) within_[i * block_tokens + j] = part<A>(product(own_[size(i)], between[j]));
    std::fill_n(within_.data() + i * block_tokens + seen, block_tokens - seen, A{0});
  }
}

template <class A>
void Decay<A>::to_end(const A* x, A* y) const {
  if (by_channel()) return decay_numbers(rows_ * dim_, to_end_.data(), x, y);
  decay_rows(rows_, dim_, to_end_.data(), x, y);
}

template <class A>
void Decay<A>::to_start(const A* x, A* y) const {
  if (by_channel()) return decay_numbers(queries_ * dim_, to_start_.data(), x, y);
  decay_rows(queries_, dim_, to_start_.data(), x, y);
}

template <class A>
void Decay<A>::pass(A* s, Index cols) const {
  if (rows_ > 0) decay_rows(dim_, cols, total_.data(), s, s);
}

template <class A>
void Decay<A>::by(const A* parts, const A* x, A* y) const {
  if (by_channel()) return decay_numbers(dim_, parts, x, y);
  decay_rows(1, call_.in_dim, parts, x, y);
}
template <class A>
void Decay<A>::sum_meets(Index i, const A* x, A* y) const {
  const A own = part<A>(own_[size(i)]);
  decay_rows(1, call_.in_dim, &own, x, y);
}

template <class A>
void Decay<A>::weigh(Index i, Index rows, A* s) const {
  decay_numbers(rows * block_tokens, within_.data() + i * block_tokens, s, s);
}

template <class A>
Index Decay<A>::meet_keys(Index i, const A* x, A* u) const {
  const Index seen = seen_[size(i)];
  if (seen == 0) return 0;
  const A own = part<A>(own_[size(i)]);
  decay_rows(1, dim_, &own, x, u + (seen - 1) * dim_);
  for (Index j = seen; --j > 0;) decay_numbers(dim_, steps_.data() + j * dim_, u + j * dim_, u + (j - 1) * dim_);
  return seen;
}

template <class A>
void Decay<A>::sum_keys(Index i, const A* weights, const A* keys, A* y, A* room) const {
  std::fill_n(room, dim_, A{0});
  for (Index j = 0; j < seen_[size(i)]; ++j) {
    decay_numbers(dim_, steps_.data() + j * dim_, room, room);
    add_scaled(dim_, weights[j], keys + j * dim_, room);
  }
  add_scaled(dim_, part<A>(own_[size(i)]), room, y);
}

template <class A>
DecayGrads<A>::DecayGrads(const Call<A>& call, bool wanted) : call_(call), wanted_(wanted), channels_(call.channels()) {
  if (!wanted) return;
  const Problem& p = call.problem;
  steps_.resize(size((p.k_len + 1) * channels_));
  queries_.resize(size(call.group() * p.q_len));
  from_.resize(size(std::max(p.q_len, p.k_len)));
  to_.resize(from_.size());
  sums_.resize(from_.size());
}

template <class A>
void DecayGrads<A>::open(Index b, Index kv) {
  b_ = b, kv_ = kv;
  std::fill(steps_.begin(), steps_.end(), 0.0);
  std::fill(queries_.begin(), queries_.end(), 0.0);
}

template <class A>
double DecayGrads<A>::add(Index at, double sign, Index dim, const A* row, const A* d_row) {
  double sum = 0;
  for (Index c = 0; c < dim; ++c) {
    const double here = static_cast<double>(row[c]) * static_cast<double>(d_row[c]);
    sum += here;
    if (channels_ > 1) steps_[size(at * channels_ + c)] += sign * here;
  }
  if (channels_ == 1) steps_[size(at)] += sign * sum;
  return sum;
}

template <class A>
void DecayGrads<A>::query(Index g, Index i, Index seen, Index dim, const A* row, const A* d_row) {
  queries_[size(g * call_.problem.q_len + i)] += add(seen, 1, dim, row, d_row);
}
template <class A>
void DecayGrads<A>::key(Index j, Index dim, const A* row, const A* d_row) {
  add(j + 1, -1, dim, row, d_row);
}
template <class A>
void DecayGrads<A>::end(Index dim, const A* s, const A* d_s, Index cols) {
  for (Index c = 0; c < dim; ++c) {
    double sum = 0;
    for (Index d = 0; d < cols; ++d) {
      sum += static_cast<double>(s[c * cols + d]) * static_cast<double>(d_s[c * cols + d]);
    }
    steps_[size(call_.problem.k_len * channels_ + (channels_ > 1 ? c : 0))] += sum;
  }
}

/// From rows to steps: step t has all that stands behind it, more than t keys seen. Without a state the first step
/// leads from nothing, and rounding alone would be left of its sum.
template <class A>
void DecayGrads<A>::sum_up(bool has_start) {
  const Index n = channels_, k_len = call_.problem.k_len;
  for (Index c = 0; c < n; ++c) {
    double sum = 0, behind = steps_[size(k_len * n + c)];
    for (Index t = k_len; t-- > 0;) {
      sum += behind;
      behind = std::exchange(steps_[size(t * n + c)], t > 0 || has_start ? sum : 0);
    }
  }
}

template <class A>
void DecayGrads<A>::tell(const Term<A>& term, Side side, Index rows, const double* d_log, A* params) {
  place_steps(call_, side, b_, 0, rows, from_.data(), to_.data());
  StepTile tile{.batch = b_, .head = kv_, .rows = rows, .from = from_.data(), .to = to_.data(), .side = side};
  if (side == Side::key && term.by_channel) tile.channels = channels_;
  if (side == Side::key && !term.by_channel && channels_ > 1) {
    for (Index t = 0; t < rows; ++t) {
      sums_[size(t)] = 0;
      for (Index c = 0; c < channels_; ++c) sums_[size(t)] += d_log[t * channels_ + c];
    }
    d_log = sums_.data();
  }
  term.log_decay_grads(term.self, tile, d_log, params);
}

template <class A>
void DecayGrads<A>::pass_on(bool has_start, ParamBlocks<A>& blocks) {
  if (!wanted_) return;
  const Index q_len = call_.problem.q_len;
  // What no key of the call stands before sees the state alone, and without one nothing.
  for (Index i = 0; i < q_len && !has_start && call_.visible_of(b_)[i] == 0; ++i) {
    for (Index g = 0; g < call_.group(); ++g) queries_[size(g * q_len + i)] = 0;
  }
  sum_up(has_start);
  for (Index t = 0; t < call_.decays.size; ++t) {
    const Term<A>& term = call_.decays.terms[size(t)];
    A* params = blocks.block(b_, kv_, t);
    if (params == nullptr || term.log_decay_grads == nullptr) continue;
    tell(term, Side::key, call_.problem.k_len, steps_.data(), params);
    for (Index g = 0; g < call_.group() && !term.counts_tokens; ++g) {
      tell(term, Side::query, q_len, queries_.data() + g * q_len, params);
    }
  }
}

template class Decay<float>;
template class Decay<double>;
template class DecayGrads<float>;
template class DecayGrads<double>;

}  // namespace bearing::linear
