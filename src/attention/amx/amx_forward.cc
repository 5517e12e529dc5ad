#include "attention/amx/amx_forward.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
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

/// What terms work out at once; and columns that rows are marked for. Columns start at a whole block of the kernel, and
/// stay in the second cache while the rows pass by.
constexpr TileExtents most_tile = {3 * amx::strip_rows, 256};
constexpr Index most_marked = 512;
/// No block of the kernel is cut in two, whatever its pieces: numbers depend on where blocks end.
constexpr Index grid = amx::block_cols(1);
static_assert(grid % amx::block_cols(amx::float_pieces) == 0);

/// What is marked of a run, without what is not at both of its ends.
Columns marked(const char* marks, Columns run) {
  const auto any = [](const char* at) {
    std::uint64_t eight;
    std::memcpy(&eight, at, sizeof eight);
    return eight != 0;
  };
  while (run.end - run.first >= 8 && !any(marks + run.first)) run.first += 8;
  while (!run.empty() && marks[run.first] == 0) ++run.first;
  while (run.end - run.first >= 8 && !any(marks + run.end - 8)) run.end -= 8;
  while (!run.empty() && marks[run.end - 1] == 0) --run.end;
  return run;
}

/// The matrix that a term adds in a sequence and head, if its columns lie side by side.
View<const float, 2> matrix_of(const Term<float>& term, Index b, Index h) {
  const View<const float, 2> all = term.matrix == nullptr ? View<const float, 2>() : term.matrix(term.self, b, h);
  return all.stride[1] == 1 ? all : View<const float, 2>();
}

bool looks_at_rows(const AttentionPlan<float>& plan) { return plan.tiled && any_looks_at_rows(plan.call.acting); }

/// Whether a unit of a bias is so large that it must be the one of logits, in the backward and elsewhere too.
bool is_large(float bias) { return std::abs(bias) >= amx::large_logit && !std::isinf(bias); }

/// What products are kept within before they are scaled; 0: nothing.
float cap(const AttentionCall<float>& call) { return static_cast<float>(call.options.soft_cap) / call.scale; }

/// Whether float has such a cap, and one over it.
bool has_cap(float cap) { return cap == 0 || (std::isnormal(cap) && std::isnormal(1 / cap)); }

}  // namespace

bool AmxForward::serves(const AttentionPlan<float>& plan) {
  const AttentionCall<float>& call = plan.call;
  if (amx::kernels() == nullptr || call.whole_rows) return false;
  if (!has_cap(cap(call))) return false;
  if (call.value_rows.size > 0) return false;  // one piece would round turned values once more
  for (const Term<float>& term : call.acting) {
    if (term.add_values != nullptr) return false;
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
  const Index widest = std::max({problem.dim, problem.value_dim, plan.call.in_dim});
  const Index beside_rows_of_keys = widest > 128 ? 64 : widest > 64 ? 192 : 288;
  const Index alone = pieces_of(plan) == 1 || widest > 128 ? 192 : plan.tiled ? 288 : 320;
  return std::min(problem.q_len, looks_at_rows(plan) ? beside_rows_of_keys : alone);
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
      tiles_(plan.tiled ? plan.call.acting : TermList<float>{}, plan.call.problem,
             plan.tiled ? most_tile : TileExtents{0, 0}, ScoreRoom::own, RowRoom::none,
             looks_at_rows(plan) ? RowRoom::own : RowRoom::none),
      log2_scale_(log2_scale(plan.call)),
      cap_(cap(plan.call)) {
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
  q_rows_.resize(size_if(looks_at_rows(plan), rows * problem.dim));
  bool diagonals = false, marks = false;
  for (Index b = 0; b < problem.batch; ++b) {
    diagonals = diagonals || (plan.by_diagonal(b) && plan.call.acting.size > 0 && problem.k_len > 0);
    marks = marks || (plan.visibility.holes(b) && plan.visibility.marks_at(b, 0, 0).of == nullptr);
  }
  bias_.resize(size_if(diagonals, problem.q_len + problem.k_len - 1));
  seen_.resize(size_if(marks, rows * most_marked));
  for (auto* each : {&max_, &sum_}) each->resize(size(amx::padded(rows)));
  rounded_sum_.resize(size_if(pack_.pieces == 1, amx::padded(rows)));
  sees_.resize(size(rows)), row_first_.resize(size(rows)), row_end_.resize(size(rows));
  ready_.resize(size(pieces(problem.k_len, pack_cols)));
}

FinishedRows<float> AmxForward::block(Index b, Index h, Index row) {
  const Problem& problem = plan_->call.problem;
  const Index rows = std::min(plan_->extents.rows, problem.q_len - row);
  row_ = row;
  open_head(b, h);
  open_queries(rows);
  begin();
  Columns all;
  for (Index i = 0; i < rows; ++i) {
    sees_[size(i)] = plan_->visibility.of(b, row + i);
    all.reach_over(sees_[size(i)]);
  }
  if (!all.empty()) by_tile() ? meet_by_tile(rows, all) : meet_at_once(rows, all);
  const float* divisor = pack_.pieces == 1 ? rounded_sum_.data() : sum_.data();
  constexpr float most = std::numeric_limits<float>::max();  // which in_log2() leaves as it is
  for (float& max : max_) max = logits_ || std::abs(max) == most ? max : max * std::numbers::ln2_v<float>;
  return {b, h, row, rows, out_.data(), divisor, max_.data(), sum_.data(), 1};
}

void AmxForward::meet_at_once(Index rows, Columns all) {
  ready(all);
  meet(0, rows, {0, all.end});
}

void AmxForward::meet_by_tile(Index rows, Columns all) {
  const Index at_once = terms_write() ? most_tile.rows : rows, width = terms_write() ? most_tile.cols : most_marked;
  for (Index col = all.first / width * width; col < all.end; col += width) {
    const Columns cols{col, std::min(col + width, all.end)};
    ready(common(cols, all));
    if (!q_rows_.empty()) load_keys(cols, tiles_.k_rows());
    for (Index i = 0; i < rows; i += at_once) meet(i, std::min(at_once, rows - i), cols);
  }
}

void AmxForward::open_head(Index b, Index h) {
  const Index group = plan_->call.group();
  if (b == b_ && h == h_) return;
  if (b != b_ || h / group != h_ / group) std::fill(ready_.begin(), ready_.end(), 0);
  b_ = b, h_ = h;
  hidden_.open(b, kv_head());
  const TermList<float>& terms = plan_->call.acting;
  logits_ = terms.size > 0 && !plan_->by_diagonal(b);
  matrix_ = logits_ && terms.size == 1 ? matrix_of(terms.terms[0], b, h) : View<const float, 2>();
  if (bias_.empty() || !plan_->by_diagonal(b)) return;
  diagonals_.open(b, h);
  const float* natural = diagonals_.at(plan_->call.problem.q_len - 1, 0);
  std::copy_n(natural, bias_.size(), bias_.begin());
  logits_ = std::any_of(bias_.begin(), bias_.end(), is_large);
  if (!logits_) std::transform(bias_.begin(), bias_.end(), bias_.begin(), amx::in_log2);
}

void AmxForward::open_queries(Index rows) {
  const Index dim = plan_->call.problem.dim, in_dim = plan_->call.in_dim;
  const bool turns = query_turner_.turns();
  if (!turns && q_rows_.empty() && as_packed(queries_)) {
    as_stored(queries_, b_, h_, row_,
              [&](const auto* from) { pack_.queries(rows, dim, from, queries_.row_stride(), q_.data()); });
    return;
  }
  std::vector<float>& made = !q_rows_.empty() ? q_rows_ : turns ? turned_ : loaded_;
  queries_.load(b_, h_, row_, rows, turns ? loaded_.data() : made.data());
  if (turns) query_turner_.turn(b_, h_, row_, rows, loaded_.data(), in_dim, made.data());
  pack_.queries(rows, dim, made.data(), dim, q_.data());
}

/// A sink is a weight that is there before the first key, for a maximum that is a whole number.
void AmxForward::begin() {
  const auto& sinks = plan_->call.options.sinks.value;
  float max = -std::numeric_limits<float>::infinity(), sum = 0;
  if (sinks.data != nullptr && sinks(h_) != max) {
    const float logit = logits_ ? sinks(h_) : amx::in_log2(sinks(h_));
    max = logits_ ? logit : std::ceil(logit);
    sum = std::exp2(logit - max);
  }
  std::fill(max_.begin(), max_.end(), max);
  std::fill(sum_.begin(), sum_.end(), sum);
  std::fill(rounded_sum_.begin(), rounded_sum_.end(), sum);
  std::fill_n(out_.data(), out_.size(), 0.0f);
}

void AmxForward::meet(Index i, Index n, Columns cols) {
  const Problem& problem = plan_->call.problem;
  const Index origin = cols.first;
  for (Index r = 0; r < n; ++r) {
    const Columns sees = common(sees_[size(i + r)], cols);
    row_first_[size(r)] = sees.first - origin, row_end_[size(r)] = sees.end - origin;
  }
  const Marks seen = plan_->visibility.holes(b_) ? marks(i, n, cols) : Marks();
  const Columns all = cut_runs(n, seen);
  if (all.empty()) return;
  pack_.kernels->attend({.pieces = pack_.pieces,
                         .rows = n,
                         .first = all.first,
                         .end = all.end,
                         .dim = problem.dim,
                         .value_dim = problem.value_dim,
                         .q = q_.data() + pack_.room(i * problem.dim),
                         .keys = packed_keys_.data() + pack_.room(amx::packed_at(origin, problem.dim)),
                         .values = packed_values_.data() + pack_.room(amx::packed_at(origin, problem.value_dim)),
                         .row_first = row_first_.data(),
                         .row_end = row_end_.data(),
                         .scale = logits_ ? plan_->call.scale : log2_scale_,
                         .cap = cap_,
                         .bias = biases(i, n, origin, all),
                         .seen = seen.of,
                         .seen_stride = seen.stride,
                         .max = max_.data() + i,
                         .sum = sum_.data() + i,
                         .rounded_sum = pack_.pieces == 1 ? rounded_sum_.data() + i : nullptr,
                         .out = out_.data() + i * problem.value_dim,
                         .scratch = scratch_.data()});
}

Marks AmxForward::marks(Index i, Index n, Columns cols) {
  Marks marks = plan_->visibility.marks_at(b_, h_, row_ + i);
  if (marks.of != nullptr) return {marks.of + cols.first, marks.stride};
  plan_->visibility.mark_tile(b_, h_, row_ + i, n, cols, seen_.data(), most_marked);
  return {seen_.data(), most_marked};
}

Columns AmxForward::cut_runs(Index n, const Marks& marks) {
  Columns all;
  for (Index r = 0; r < n; ++r) {
    Columns run{row_first_[size(r)], row_end_[size(r)]};
    if (marks.of != nullptr) run = marked(marks.of + r * marks.stride, run);
    row_first_[size(r)] = run.first, row_end_[size(r)] = run.end;
    all.reach_over(run);
  }
  return all;
}

amx::Bias AmxForward::biases(Index i, Index n, Index origin, Columns seen) {
  const AttentionCall<float>& call = plan_->call;
  if (call.acting.size == 0) return {};
  if (plan_->by_diagonal(b_)) {
    return {logits_ ? amx::Bias::By::element : amx::Bias::By::distance,
            bias_.data() + call.problem.q_len - 1 - (row_ + i) + origin, -1};
  }
  if (matrix_.data != nullptr) {
    return {amx::Bias::By::element, &matrix_(row_ + i, origin), matrix_.stride[0]};
  }
  const Index dim = call.problem.dim, first = seen.first / grid * grid;  // from the origin on
  Tile<float> tile = tiles_.open(call.problem, b_, h_, row_ + i, origin + first);
  tile.rows = n, tile.cols = seen.end - first;
  tile.q = q_rows_.empty() ? nullptr : q_rows_.data() + i * dim, tile.q_stride = dim;
  tile.k = q_rows_.empty() ? nullptr : tiles_.k_rows() + first * dim, tile.k_stride = dim;
  tile.scale = call.scale;
  tiles_.write(call.acting, tile, tiles_.scores() + first, false);
  return {amx::Bias::By::element, tiles_.scores(), tile.stride};
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
    direct = !(rows.wild(b_, kv_head(), j) && hidden_(j));
  }
  return direct;
}

void AmxForward::load_keys(Columns cols, float* to) {
  const Index dim = plan_->call.problem.dim, in_dim = plan_->call.in_dim;
  for (Index first = cols.first; first < cols.end; first += pack_cols, to += pack_cols * dim) {
    const Index n = std::min(pack_cols, cols.end - first);
    float* in = key_turner_.turns() ? loaded_.data() : to;
    keys_.load(b_, kv_head(), first, n, in);
    hidden_.clear(first, n, in_dim, in);
    if (key_turner_.turns()) key_turner_.turn(b_, kv_head(), first, n, in, in_dim, to);
  }
}

/// Keys that do not exist, or that nobody sees, are zeros: what lies in their place may be anything.
void AmxForward::pack_block(Index first) {
  const AttentionCall<float>& call = plan_->call;
  const Columns exist = plan_->visibility.keys(b_);
  const Index begin = std::max(first, exist.first), end = std::min(first + pack_cols, exist.end), n = end - begin;
  const Index dim = call.problem.dim, value_dim = call.problem.value_dim, kv_head = this->kv_head();
  Bfloat16* keys = packed_keys_.data() + pack_.room(amx::packed_at(first, dim));
  Bfloat16* values = packed_values_.data() + pack_.room(amx::packed_at(first, value_dim));

  if (begin == first && !key_turner_.turns() && packs_direct(keys_, first, n)) {
    as_stored(keys_, b_, kv_head, first, [&](const auto* from) { pack_.keys(n, dim, from, keys_.row_stride(), keys); });
  } else {
    std::vector<float>& rows = key_turner_.turns() ? turned_ : loaded_;
    float* to = rows.data() + (begin - first) * dim;
    load_keys({begin, end}, to);
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
