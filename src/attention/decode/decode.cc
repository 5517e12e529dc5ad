#include "attention/decode/decode.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "aligned.hpp"
#include "attention/decode/decode_kernels.hpp"
#include "attention/shared/extents.hpp"
#include "attention/shared/hidden_keys.hpp"
#include "attention/shared/row_kernels.hpp"
#include "attention/shared/row_turner.hpp"
#include "attention/shared/schedule.hpp"
#include "attention/shared/share.hpp"
#include "attention/shared/value_turner.hpp"
#include "attention/shared/visibility.hpp"
#include "attention/softmax/softmax_kernels.hpp"
#include "terms/tile_work.hpp"

namespace bearing {

namespace {

/// Keys that are turned or copied at once, to be read again from the nearest cache. Also what slices are multiples of:
/// whole panels on every machine.
constexpr Index keys_at_once = 64;

/// What reads a cache of one type of numbers.
template <class A>
struct CacheKernels {
  void (*dots)(Index rows, Index keys, Index dim, A alpha, const A* q, Index q_stride, const void* k, Index k_stride,
               A* s, Index stride);
  void (*add_weighted)(Index rows, Index keys, Index value_dim, const A* p, Index stride, const void* v, Index v_stride,
                       A* out, Index out_stride);
};

template <class T>
constexpr CacheKernels<Compute<T>> cache_kernels_of{
    [](Index rows, Index keys, Index dim, Compute<T> alpha, const Compute<T>* q, Index q_stride, const void* k,
       Index k_stride, Compute<T>* s, Index stride) {
      attend::dots<T>(rows, keys, dim, alpha, q, q_stride, static_cast<const T*>(k), k_stride, s, stride);
    },
    [](Index rows, Index keys, Index value_dim, const Compute<T>* p, Index stride, const void* v, Index v_stride,
       Compute<T>* out, Index out_stride) {
      attend::add_weighted<T>(rows, keys, value_dim, p, stride, static_cast<const T*>(v), v_stride, out, out_stride);
    }};

template <class A>
const CacheKernels<A>& cache_kernels(const HeadRows<A>& rows) {
  if constexpr (std::is_same_v<A, float>) {
    if (rows.type() == NumberType::bf16) return cache_kernels_of<Bfloat16>;
    if (rows.type() == NumberType::f16) return cache_kernels_of<Float16>;
  }
  return cache_kernels_of<A>;
}

/// How a call is cut. A sequence's keys are cut by which of them are seen, and by nothing of the rest of the batch, the
/// room behind them or the workers, so that its bits depend on none of these.
template <class A>
struct DecodePlan {
  const AttentionCall<A>& call;
  Visibility visibility;
  Index rows;                 ///< queries of all heads that share a kv head
  Index step;                 ///< keys whose scores are held at once
  Index slices = 1;           ///< of the keys of a kv head, at most
  bool apart;                 ///< slices are units of work of their own, and their results are kept for all heads
  std::vector<Columns> seen;  ///< [batch] keys that any query sees
  std::vector<char> gaps;     ///< [batch] whether keys among them may be hidden from all

  /// Throws std::bad_alloc.
  DecodePlan(const AttentionCall<A>& of, const Executor& on)
      : call(of), visibility(of.problem, of.options), rows(of.group() * of.problem.q_len) {
    const Problem& problem = call.problem;
    step = std::min(std::clamp<Index>(8192 / rows / keys_at_once * keys_at_once, 128, 1024),
                    round_up(problem.k_len, keys_at_once));
    seen.resize(size(problem.batch));
    gaps.resize(size(problem.batch));
    for (Index b = 0; b < problem.batch; ++b) {
      Columns& all = seen[size(b)];
      gaps[size(b)] = visibility.holes(b);
      for (Index i = 0; i < problem.q_len; ++i) {
        const Columns row = visibility.of(b, i);
        if (row.empty()) continue;
        if (!all.empty() && (row.first > all.end || row.end < all.first)) gaps[size(b)] = 1;
        all.reach_over(row);
      }
      slices = std::max(slices, slices_of(b));
    }
    const Index heads = problem.batch * problem.kv_heads;
    apart = slices > 1 && heads < 4 * workers_of(on) && heads * slices * result_size() <= 16 * mebibyte;
  }

  Index units() const { return call.problem.batch * call.problem.kv_heads * (apart ? slices : 1); }
  /// Enough for all workers of a large machine, of at least 512 keys each; and their results take 1 MiB at most.
  Index slices_of(Index b) const {
    const Index heads = call.problem.kv_heads, keys = seen[size(b)].end - seen[size(b)].first;
    const Index wanted = std::clamp<Index>(256 / heads, 1, std::max<Index>(keys / 512, 1));
    return std::max<Index>(1, std::min(wanted, mebibyte / (heads * result_size())));
  }
  /// Throws std::bad_alloc.
  ValueTurner<A> out_turner() const {
    return {call.value_rows, *call.problem.q_positions, Side::query, call.problem.value_dim};
  }
  Columns slice(Index b, Index n) const {
    const Columns all = seen[size(b)];
    if (all.empty()) return {};
    const Index length = round_up(pieces(all.end - all.first, slices_of(b)), keys_at_once);
    return {all.first + n * length, std::min(all.first + (n + 1) * length, all.end)};
  }
  Index out_stride() const { return attend::padded<A>(call.problem.value_dim); }
  static constexpr Index mebibyte = (Index{1} << 20) / Index{sizeof(A)};  ///< of numbers
  /// Numbers of a slice's results.
  Index result_size() const { return rows * out_stride() + attend::padded<A>(2 * rows); }
};

/// What the rows of a kv head have from a slice of keys: out [rows, out_stride], max and sum [rows].
template <class A>
struct SliceResult {
  A *out, *max, *sum;

  SliceResult(const DecodePlan<A>& plan, A* memory)
      : out(memory), max(memory + plan.rows * plan.out_stride()), sum(max + plan.rows) {}
};

template <class A>
class DecodeWork {
 public:
  /// Throws std::bad_alloc; nothing below does.
  explicit DecodeWork(const DecodePlan<A>& plan)
      : plan_(&plan),
        hidden_(plan.visibility, plan.call.problem),
        queries_(plan.call.q),
        keys_(plan.call.k),
        values_(plan.call.v),
        stored_(cache_kernels(keys_)),
        own_(cache_kernels_of<A>),
        q_turner_(plan.call.rows, *plan.call.q_turned_at, Side::query, plan.call.problem.q_len, plan.call.in_dim),
        k_turner_(plan.call.rows, *plan.call.k_turned_at, Side::key, keys_at_once, plan.call.in_dim),
        v_turner_(plan.call.value_rows, *plan.call.problem.k_positions, Side::key, plan.call.problem.value_dim),
        out_turner_(plan.out_turner()),
        tiles_(plan.call.acting, plan.call.problem, {plan.call.problem.q_len, plan.step}, ScoreRoom::in_place,
               RowRoom::none, RowRoom::none),
        runs_(plan.rows) {
    const AttentionCall<A>& call = plan.call;
    const Problem& problem = call.problem;
    const Index q_len = problem.q_len;
    q_stride_ = attend::padded<A>(problem.dim);
    const bool rows_in_a = !call.distances_only && (!keys_.same() || keys_.paged());
    copy_keys_ = !keys_.plain() || k_turner_.turns() || rows_in_a;
    copy_values_ = !values_.plain() || v_turner_.turns();
    q_ = zeros(plan.rows * q_stride_);
    loaded_ = zeros(std::max(q_len, copy_keys_ ? keys_at_once : 0) * call.in_dim);
    turned_ = zeros(q_turner_.turns() ? q_len * problem.dim : 0);
    if (copy_keys_) k_rows_ = zeros((call.distances_only ? keys_at_once : plan.step) * problem.dim);
    const bool gaps = std::find(plan.gaps.begin(), plan.gaps.end(), 1) != plan.gaps.end();
    if (copy_values_ || gaps) v_rows_ = zeros(keys_at_once * problem.value_dim);
    if (gaps) before_ = zeros(plan.rows * plan.out_stride());
    scores_ = zeros(plan.rows * plan.step);
    rescale_.resize(size(plan.rows));
    sees_.resize(size(q_len));
    result_ = zeros(plan.apart ? 0 : plan.slices * plan.result_size());
  }

  /// Room for the results of a head's slices, where they are not units of their own; and what turns them back.
  A* result() { return result_.data(); }
  ValueTurner<A>& out_turner() { return out_turner_; }

  void slice(Index b, Index kv_head, Index n, SliceResult<A> to) {
    open(b, kv_head);
    std::fill_n(to.out, plan_->rows * plan_->out_stride(), A{0});
    std::fill_n(to.max, plan_->rows, -std::numeric_limits<A>::infinity());
    std::fill_n(to.sum, plan_->rows, A{0});
    fresh_ = true;
    const Columns all = plan_->slice(b, n);
    for (Index j = all.first; j < all.end; j += plan_->step) {
      const Columns cols{j, std::min(j + plan_->step, all.end)};
      if (anything(cols)) keys(cols, to);
    }
  }

 private:
  static AlignedArray<A> zeros(Index n) {
    AlignedArray<A> made(n);
    std::fill_n(made.data(), n, A{0});
    return made;
  }

  Index q_len() const { return plan_->call.problem.q_len; }
  Index group() const { return plan_->call.group(); }
  bool holes() const { return plan_->visibility.holes(b_); }

  /// The queries of all heads of a kv head, turned.
  void open(Index b, Index kv_head) {
    if (b == b_ && kv_head == kv_head_) return;
    b_ = b, kv_head_ = kv_head;
    hidden_.open(b, kv_head);
    const Index dim = plan_->call.problem.dim;
    for (Index g = 0; g < group(); ++g) {
      const Index h = kv_head * group() + g;
      queries_.load(b, h, 0, q_len(), loaded_.data());
      if (q_turner_.turns()) q_turner_.turn(b, h, 0, q_len(), loaded_.data(), plan_->call.in_dim, turned_.data());
      const A* from = q_turner_.turns() ? turned_.data() : loaded_.data();
      for (Index i = 0; i < q_len(); ++i) std::copy_n(from + i * dim, dim, q_.data() + (g * q_len() + i) * q_stride_);
    }
    for (Index i = 0; i < q_len(); ++i) sees_[size(i)] = plan_->visibility.of(b, i);
  }

  bool anything(Columns cols) const {
    bool any = !holes();
    for (Index g = 0; g < group() && !any; ++g) {
      any = plan_->visibility.anything(b_, kv_head_ * group() + g, 0, q_len(), cols);
    }
    return any;
  }

  /// Takes up the keys of a step.
  void keys(Columns cols, const SliceResult<A>& to) {
    const AttentionCall<A>& call = plan_->call;
    const Index n = cols.end - cols.first, value_dim = call.problem.value_dim, out_stride = plan_->out_stride();
    A* s = scores_.data();
    products(cols);
    if (call.options.soft_cap > 0) {
      attend::cap(plan_->rows, 0, n, static_cast<A>(call.options.soft_cap), s, plan_->step);
    }
    if (call.acting.size > 0) {
      each_tile(cols, [&](const Tile<A>& tile, Index row) {
        for (const Term<A>& term : call.acting) tiles_.add(term, tile, s + row * plan_->step);
      });
    }
    if (holes()) {
      for (Index g = 0; g < group(); ++g) {
        plan_->visibility.hide(b_, kv_head_ * group() + g, 0, q_len(), cols, s + g * q_len() * plan_->step,
                               plan_->step);
      }
    }
    weigh(cols, to);
    weighted_values(cols, to.out);
    for (const Term<A>& term : call.acting) {
      if (term.add_values == nullptr) continue;
      each_tile(cols, [&](const Tile<A>& tile, Index row) {
        term.add_values(term.self, tile, s + row * plan_->step, value_dim, to.out + row * out_stride, out_stride);
      });
    }
  }

  /// body(tile, row) for the tile of each head, whose first row is `row` of all.
  template <class Body>
  void each_tile(Columns cols, const Body& body) {
    const Problem& problem = plan_->call.problem;
    Tile<A> tile = tiles_.open(problem, b_, 0, 0, cols.first);  // its positions are those of every head
    tile.cols = cols.end - cols.first;
    tile.q_stride = q_stride_;
    tile.scale = plan_->call.scale;
    if (!plan_->call.distances_only) {
      tile.k = k_rows_.data(), tile.k_stride = problem.dim;
      if (!copy_keys_) tile.k = keys_.row(b_, kv_head_, cols.first), tile.k_stride = keys_.row_stride();
    }
    for (Index g = 0; g < group(); ++g) {
      tile.head = kv_head_ * group() + g;
      tile.q = q_.data() + g * q_len() * q_stride_;
      body(tile, g * q_len());
    }
  }

  /// body(j, n, row) for runs of rows: those of key cols.first + j on, n of them, row_stride() apart.
  template <class Body>
  void each_run(const HeadRows<A>& rows, Columns cols, const Body& body) {
    for (Index j = cols.first; j < cols.end;) {
      const Index n = std::min(rows.run(j), cols.end - j);
      body(j - cols.first, n, rows.address(b_, kv_head_, j));
      j += n;
    }
  }

  void products(Columns cols) {
    const AttentionCall<A>& call = plan_->call;
    const Index n = cols.end - cols.first, dim = call.problem.dim;
    if (!copy_keys_) {
      return each_run(keys_, cols, [&](Index j, Index some, const void* row) {
        stored_.dots(plan_->rows, some, dim, call.scale, q_.data(), q_stride_, row, keys_.row_stride(),
                     scores_.data() + j, plan_->step);
      });
    }
    for (Index j = 0; j < n; j += keys_at_once) {
      const Index some = std::min(keys_at_once, n - j);
      A* rows = k_rows_.data() + (call.distances_only ? 0 : j * dim);
      if (k_turner_.turns()) {
        // Where they lie, if they can be read there: a copy takes a third of the time of the turn.
        const bool direct = keys_.same() && keys_.plain() && keys_.run(cols.first + j) >= some;
        const A* from = keys_.read(direct, b_, kv_head_, cols.first + j, some, loaded_.data());
        k_turner_.turn(b_, kv_head_, cols.first + j, some, from, direct ? keys_.row_stride() : call.in_dim, rows);
      } else {
        keys_.load(b_, kv_head_, cols.first + j, some, rows);
      }
      own_.dots(plan_->rows, some, dim, call.scale, q_.data(), q_stride_, rows, dim, scores_.data() + j, plan_->step);
    }
  }

  void weigh(Columns cols, const SliceResult<A>& to) {
    for (Index r = 0; r < plan_->rows; ++r) runs_.put(r, sees_[size(r % q_len())], cols, cols.first);
    attend::weigh<A>({.rows = plan_->rows,
                      .first = 0,
                      .end = cols.end - cols.first,
                      .row_first = runs_.first.data(),
                      .row_end = runs_.end.data(),
                      .s = scores_.data(),
                      .stride = plan_->step,
                      .log2_scale = std::numbers::log2e_v<A>,
                      .bias = nullptr,
                      .max = to.max,
                      .sum = to.sum,
                      .rescale = rescale_.data()});
    if (std::exchange(fresh_, false)) return;  // of zeros nothing is rescaled
    for (Index r = 0; r < plan_->rows; ++r) {
      const A factor = rescale_[size(r)];
      A* out = to.out + r * plan_->out_stride();
      for (Index d = 0; factor != 1 && d < plan_->out_stride(); ++d) out[d] *= factor;
    }
  }

  /// Hidden keys weigh 0, which silences nearly all that their values may hold: only where a result shows that it did
  /// not, the step is done again with zeros in their place.
  void weighted_values(Columns cols, A* out) {
    if (plan_->gaps[size(b_)] == 0) return add_values(cols, out, false);
    const Index numbers = plan_->rows * plan_->out_stride();
    std::copy_n(out, numbers, before_.data());
    add_values(cols, out, false);
    if (!wild(out, numbers)) return;
    std::copy_n(before_.data(), numbers, out);
    add_values(cols, out, true);
  }

  void add_values(Columns cols, A* out, bool clear) {
    const Index n = cols.end - cols.first, value_dim = plan_->call.problem.value_dim;
    if (!copy_values_ && !clear) {
      return each_run(values_, cols, [&](Index j, Index some, const void* row) {
        stored_.add_weighted(plan_->rows, some, value_dim, scores_.data() + j, plan_->step, row, values_.row_stride(),
                             out, plan_->out_stride());
      });
    }
    for (Index j = 0; j < n; j += keys_at_once) {
      const Index some = std::min(keys_at_once, n - j);
      values_.load(b_, kv_head_, cols.first + j, some, v_rows_.data());
      if (clear) hidden_.clear(cols.first + j, some, value_dim, v_rows_.data());
      v_turner_.turn(b_, kv_head_, cols.first + j, some, v_rows_.data(), value_dim);
      own_.add_weighted(plan_->rows, some, value_dim, scores_.data() + j, plan_->step, v_rows_.data(), value_dim, out,
                        plan_->out_stride());
    }
  }

  const DecodePlan<A>* plan_;
  HiddenKeys hidden_;
  HeadRows<A> queries_, keys_, values_;
  const CacheKernels<A>&stored_, &own_;  ///< for rows where they lie, and for copies
  RowTurner<A> q_turner_, k_turner_;
  ValueTurner<A> v_turner_, out_turner_;
  TileWork<A> tiles_;
  bool copy_keys_ = false, copy_values_ = false;
  bool fresh_ = true;  ///< no key of the slice has been met
  Index q_stride_ = 0, b_ = -1, kv_head_ = -1;
  AlignedArray<A> q_, loaded_, turned_, k_rows_, v_rows_, scores_, result_, before_;
  std::vector<A> rescale_;
  std::vector<Columns> sees_;
  RowRuns runs_;
};

/// Merges the results of all slices of a kv head into the first one's, in order, turns back what values were turned by,
/// and stores them.
template <class A>
void finish(const DecodePlan<A>& plan, Index b, Index kv_head, A* memory, ValueTurner<A>& turner,
            const ResultRows<A>& out, View<A, 3> lse) {
  constexpr A none = -std::numeric_limits<A>::infinity();
  const Index q_len = plan.call.problem.q_len, value_dim = plan.call.problem.value_dim, slices = plan.slices_of(b);
  const auto& sinks = plan.call.options.sinks.value;
  for (Index r = 0; r < plan.rows; ++r) {
    const Index h = kv_head * plan.call.group() + r / q_len, i = r % q_len;
    const A sink = sinks.data == nullptr ? none : sinks(h);
    const auto slice = [&](Index n) { return SliceResult<A>(plan, memory + n * plan.result_size()); };
    A max = sink;
    for (Index n = 0; n < slices; ++n) max = std::max(max, slice(n).max[r]);
    const auto share = [&](A of) { return of == none ? A{0} : attend::share(of - max); };
    A* row = slice(0).out + r * plan.out_stride();
    A sum = share(sink), first = share(slice(0).max[r]);
    sum += first * slice(0).sum[r];
    for (Index d = 0; slices == 1 && first != 1 && d < value_dim; ++d) row[d] *= first;  // beside a sink
    for (Index n = 1; n < slices; ++n, first = 1) {
      const A factor = share(slice(n).max[r]);
      attend::blend<A>(value_dim, first, row, factor, slice(n).out + r * plan.out_stride());
      sum += factor * slice(n).sum[r];
    }
    if (sum == 0) {
      std::fill_n(row, value_dim, A{0});
    } else {
      attend::divide(value_dim, sum, row);
      turner.turn(b, h, i, 1, row, value_dim);
    }
    out.store(row, value_dim, 1, b, h, i);
    if (lse.data != nullptr) lse(b, h, i) = sum == 0 ? none : max + std::log(sum);
  }
}

}  // namespace

/// Measured: packing keys pays from some 24 queries of a head on, and over fewer than 256 keys from some 5 on; it
/// serves one head at a time, so that for fewer queries it never pays, however many heads share them.
template <class A>
bool decodes(const AttentionCall<A>& call) {
  const Index q_len = call.problem.q_len, rows = call.group() * q_len;
  if (call.whole_rows || call.problem.k_len == 0) return false;
  return q_len <= 4 ? rows <= 256 : rows <= 24 && call.problem.k_len >= 256;
}

template <class A>
void decode(const AttentionCall<A>& call, const ResultRows<A>& out, View<A, 3> lse, const Executor& on) {
  const DecodePlan<A> plan(call, on);
  const Index kv_heads = call.problem.kv_heads, slices = plan.slices, units = plan.units();
  AlignedArray<A> results(plan.apart ? units * plan.result_size() : 0);
  std::vector<DecodeWork<A>> workers = make_workers<DecodeWork<A>>(on, units, plan);
  share_units(on, workers, units, [&](DecodeWork<A>& work, Index unit) {
    const Index head = plan.apart ? unit / slices : unit, b = head / kv_heads, kv_head = head % kv_heads;
    const auto slice = [&](Index n, A* memory) { work.slice(b, kv_head, n, SliceResult<A>(plan, memory)); };
    if (plan.apart) {
      if (unit % slices < plan.slices_of(b)) slice(unit % slices, results.data() + unit * plan.result_size());
      return;
    }
    for (Index n = 0; n < plan.slices_of(b); ++n) slice(n, work.result() + n * plan.result_size());
    finish(plan, b, kv_head, work.result(), work.out_turner(), out, lse);
  });
  if (!plan.apart) return;
  const Index heads = units / slices, chunks = chunk_count(on, heads);
  std::vector<ValueTurner<A>> turners;
  turners.reserve(size(chunks));
  for (Index c = 0; c < chunks; ++c) turners.push_back(plan.out_turner());
  in_chunks(on, chunks, heads, [&](Index chunk, Index head) {
    A* memory = results.data() + head * slices * plan.result_size();
    finish(plan, head / kv_heads, head % kv_heads, memory, turners[size(chunk)], out, lse);
  });
}

#define BEARING_INSTANTIATE(A)                       \
  template bool decodes<A>(const AttentionCall<A>&); \
  template void decode<A>(const AttentionCall<A>&, const ResultRows<A>&, View<A, 3>, const Executor&);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
#undef BEARING_INSTANTIATE

}  // namespace bearing
