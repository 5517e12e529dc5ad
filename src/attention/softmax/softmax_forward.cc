#include "attention/softmax/softmax_forward.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

#include "attention/shared/extents.hpp"
#include "attention/softmax/softmax_kernels.hpp"
#include "simd/prefetch.hpp"

namespace bearing {

namespace {

/// Columns of a matrix that are asked for before the products they are added to, which take as long as memory does: a
/// whole number of panels. With a strip's columns at once attention takes 1.06 times as long (AVX2), or 1.08 (AVX-512).
constexpr Index matrix_columns = 64;

template <class A>
Index whole_panels(Index columns) {
  return round_up(columns, attend::panel_width<A>());
}

/// A block of keys and values fills some 256 KiB, which stays in the second cache while the rows of a block pass by.
/// Tiles that terms work on are smaller, for their scores stay there too; some terms need all keys at once.
template <class A>
BlockExtents extents_of(const AttentionCall<A>& call, bool tiled) {
  const Problem& problem = call.problem;
  const Index most_cols = whole_panels<A>(std::max<Index>(problem.k_len, 1));
  if (call.whole_rows) return {std::clamp<Index>(131072 / std::max<Index>(most_cols, 1), 4, 64), most_cols};
  const Index numbers = Index{256} * 1024 / static_cast<Index>(sizeof(A));
  const Index row_numbers = std::max<Index>(problem.dim + problem.value_dim, 1);
  const Index cols = whole_panels<A>(std::clamp<Index>(numbers / row_numbers, 128, tiled ? 256 : 1024));
  return {std::min<Index>(problem.q_len, tiled ? 96 : 192), std::min(cols, most_cols)};
}

}  // namespace

template <class A>
AttentionPlan<A>::AttentionPlan(const AttentionCall<A>& of)
    : call(of), visibility(of.problem, of.options), extents{}, diagonal_(size(of.problem.batch)) {
  for (Index b = 0; b < call.problem.batch; ++b) {
    // A term that asks for whole rows gets them, though it may add a function of the distance alone.
    diagonal_[size(b)] = call.acting.size == 0 || (!call.whole_rows && call.distances_only && call.by_diagonal(b));
    tiled = tiled || !by_diagonal(b);
  }
  extents = extents_of(call, tiled && matrix(0, 0).data == nullptr);
}

template <class A>
View<const A, 2> AttentionPlan<A>::matrix(Index b, Index h) const {
  const TermList<A>& terms = call.acting;
  if (terms.size != 1 || terms.terms[0].matrix == nullptr || call.whole_rows) return {};
  const View<const A, 2> all = terms.terms[0].matrix(terms.terms[0].self, b, h);
  return all.stride[1] == 1 ? all : View<const A, 2>{};
}

template <class A>
Diagonals<A>::Diagonals(const AttentionPlan<A>& plan) : plan_(&plan) {
  const AttentionCall<A>& call = plan.call;
  bool any = false;
  for (Index b = 0; b < call.problem.batch; ++b) any = any || plan.by_diagonal(b);
  if (call.acting.size == 0 || call.problem.k_len == 0 || !any) return;
  const Index n = call.problem.q_len + call.problem.k_len - 1;
  sums_.resize(size(n + attend::panel_width<A>()));  // kernels read whole panels
}

template <class A>
void Diagonals<A>::open(Index b, Index h) {
  const AttentionCall<A>& call = plan_->call;
  present_ = !sums_.empty() && plan_->by_diagonal(b);
  if (!present_ || (b == b_ && h == h_)) return;
  b_ = b, h_ = h;
  over_diagonals(call, b, [&](Index x, Index n, const double* distances) {
    A* const sums = sums_.data() + x;
    std::array<A, diagonals_at_once> more;
    for (Index t = 0; t < call.acting.size; ++t) {
      const Term<A>& term = call.acting.terms[size(t)];
      term.bias(term.self, h, n, distances, t == 0 ? sums : more.data());
      for (Index y = 0; t > 0 && y < n; ++y) sums[y] += more[size(y)];
    }
  });
}

template <class A>
ForwardWork<A>::ForwardWork(const AttentionPlan<A>& plan)
    : plan_(&plan),
      queries_(plan.call.q),
      keys_(plan.call, plan.visibility, plan.extents.cols),
      turner_(plan.call.rows, *plan.call.q_turned_at, Side::query, rows_at_once, plan.call.in_dim),
      diagonals_(plan),
      matrix_(plan.matrix(0, 0)),
      tiles_(needs_tiles() ? plan.call.acting : TermList<A>{}, plan.call.problem,
             needs_tiles() ? TileExtents{plan.extents.rows, plan.extents.cols} : TileExtents{0, 0}, ScoreRoom::own,
             RowRoom::none, keys_.direct_rows() ? RowRoom::none : RowRoom::own),
      runs_(plan.extents.rows) {
  const AttentionCall<A>& call = plan.call;
  const Index rows = plan.extents.rows;
  const bool direct = queries_.same() && queries_.plain() && !queries_.far_apart();
  if (!direct) loaded_.resize(size(rows * call.in_dim));
  if (turner_.turns()) turned_.resize(size(rows * call.problem.dim));
  scores_.resize(size(std::min(attend::strip_rows<A>(), rows) * plan.extents.cols));
  out_.resize(size(rows * call.problem.value_dim));
  for (std::vector<A>* row_numbers : {&max_, &sum_, &rescale_}) row_numbers->resize(size(rows));
  sees_.resize(size(rows));
}

template <class A>
void ForwardWork<A>::open_rows(Index b, Index h, Index row) {
  const AttentionCall<A>& call = plan_->call;
  keys_.open(b, h / call.group());
  diagonals_.open(b, h);
  matrix_ = plan_->matrix(b, h);
  b_ = b, h_ = h, row_ = row, rows_ = std::min(plan_->extents.rows, call.problem.q_len - row);
  const auto read = [&](Index i, Index n) { return queries_.read(loaded_.empty(), b, h, row + i, n, loaded_.data()); };
  q_stride_ = loaded_.empty() ? queries_.row_stride() : call.in_dim;
  if (!turner_.turns()) return void(q_ = read(0, rows_));
  for (Index i = 0; i < rows_; i += rows_at_once) {  // each is turned while it is near
    const Index n = std::min(rows_at_once, rows_ - i);
    turner_.turn(b, h, row + i, n, read(i, n), q_stride_, turned_.data() + i * call.problem.dim);
  }
  q_ = turned_.data(), q_stride_ = call.problem.dim;
}

template <class A>
Columns ForwardWork<A>::see() {
  Columns all;
  for (Index i = 0; i < rows_; ++i) {
    sees_[size(i)] = plan_->visibility.of(b_, row_ + i);
    all.reach_over(sees_[size(i)]);
  }
  return all;
}

template <class A>
void ForwardWork<A>::begin() {
  const auto& sinks = plan_->call.options.sinks.value;
  const A sink = sinks.data == nullptr ? -std::numeric_limits<A>::infinity() : sinks(h_);
  const A sum = sink == -std::numeric_limits<A>::infinity() ? A{0} : A{1};
  std::fill_n(max_.begin(), rows_, sink);
  std::fill_n(sum_.begin(), rows_, sum);
  std::fill(out_.begin(), out_.end(), A{0});
}

template <class A>
FinishedRows<A> ForwardWork<A>::block(Index b, Index h, Index row) {
  open_rows(b, h, row);
  begin();
  const Columns all = see();
  const Index width = plan_->extents.cols;
  for (Index col = all.first / width * width; col < all.end; col += width) {
    const Columns cols{std::max(col, all.first), std::min(col + width, all.end)};
    const bool holes = plan_->visibility.holes(b);
    if (holes && !plan_->visibility.anything(b, h, row, rows_, cols)) continue;
    const Index existing = plan_->visibility.existing(b);
    keys_.ready(col, existing);
    if (plan_->by_diagonal(b) || matrix_.data != nullptr) {
      strips(col, cols);
    } else {
      whole_tile(plan_->call.whole_rows ? Columns{0, existing} : cols);  // hidden keys too take part in running sums
    }
  }
  return {b, h, row, rows_, out_.data(), sum_.data(), max_.data(), sum_.data(), scale_factors().logits};
}

/// A sink is a logit, and the first of a row's largest scores.
template <class A>
ScaleFactors<A> ForwardWork<A>::scale_factors() const {
  if (plan_->call.options.sinks.value.data != nullptr) return {plan_->call.scale, 1};
  return plan_->scale_factors(b_);
}

template <class A>
void ForwardWork<A>::absorb(Index i, Index n, Index col, Columns cols, A* s, Index stride, A unit, const A* bias) {
  const Index panel = attend::panel_width<A>();
  for (Index r = 0; r < n; ++r) runs_.put(r, sees_[size(i + r)], cols, col);
  attend::weigh<A>({.rows = n,
                    .first = (cols.first - col) / panel * panel,
                    .end = cols.end - col,
                    .row_first = runs_.first.data(),
                    .row_end = runs_.end.data(),
                    .s = s,
                    .stride = stride,
                    .log2_scale = unit * std::numbers::log2e_v<A>,
                    .bias = bias,
                    .max = max_.data() + i,
                    .sum = sum_.data() + i,
                    .rescale = rescale_.data() + i});
  const Index value_dim = plan_->call.problem.value_dim;
  attend::accumulate(n, cols.first - col, cols.end - col, value_dim, s, stride, rescale_.data() + i, keys_.values(col),
                     out_.data() + i * value_dim, value_dim);
}

template <class A>
void ForwardWork<A>::strips(Index col, Columns cols) {
  const AttentionCall<A>& call = plan_->call;
  const Index strip = attend::strip_rows<A>(), stride = plan_->extents.cols, panel = attend::panel_width<A>();
  const ScaleFactors<A> scale = scale_factors();
  for (Index i = 0; i < rows_; i += strip) {
    const Index n = std::min(strip, rows_ - i);
    Columns seen;
    for (Index r = i; r < i + n; ++r) seen.reach_over(sees_[size(r)]);
    seen = common(seen, cols);
    if (seen.empty()) continue;
    A* s = scores_.data();
    const Index begin = (seen.first - col) / panel * panel, end = seen.end - col;
    const Index step = matrix_.data == nullptr ? end - begin : matrix_columns;
    for (Index c = begin; c < end; c += step) {
      const Index stop = std::min(c + step, end);
      const A* matrix = matrix_.data == nullptr ? nullptr : &matrix_(row_ + i, col + c);
      if (matrix != nullptr) simd::prefetch_rows(matrix, 0, n, stop - c, matrix_.stride[0]);
      attend::scores(n, c, stop, call.problem.dim, scale.products, q_ + i * q_stride_, q_stride_, keys_.packed(col), s,
                     stride);
      if (call.options.soft_cap > 0) {
        attend::cap(n, c, stop, static_cast<A>(call.options.soft_cap), s, stride);
      }
      if (matrix != nullptr) tiles::add_matrix(n, stop - c, matrix, matrix_.stride[0], 0, s + c, stride);
    }
    if (plan_->visibility.holes(b_)) {
      plan_->visibility.hide(b_, h_, row_ + i, n, seen, s + (seen.first - col), stride);
    }
    absorb(i, n, col, seen, s, stride, scale.logits, diagonals_.at(row_ + i, col));
  }
}

template <class A>
void ForwardWork<A>::whole_tile(Columns cols) {
  const AttentionCall<A>& call = plan_->call;
  const Index panel = attend::panel_width<A>();
  cols.first = cols.first / panel * panel;
  Tile<A> tile = tiles_.open(call.problem, b_, h_, row_, cols.first);
  tile.cols = cols.end - cols.first;
  tile.q = q_, tile.q_stride = q_stride_;
  tile.k = keys_.rows(cols.first, tile.cols, tiles_.k_rows(), tile.k_stride);
  tile.scale = call.scale;
  if (call.whole_rows) {
    plan_->visibility.mark_tile(b_, h_, row_, rows_, cols, tiles_.seen(), tile.cols);
    tile.seen = tiles_.seen();
  }
  A* s = tiles_.scores();
  attend::scores(rows_, 0, tile.cols, call.problem.dim, call.scale, q_, q_stride_, keys_.packed(cols.first), s,
                 tile.stride);
  if (call.options.soft_cap > 0) {
    attend::cap(rows_, 0, tile.cols, static_cast<A>(call.options.soft_cap), s, tile.stride);
  }
  for (const Term<A>& term : call.acting) tiles_.add(term, tile, s);
  if (plan_->visibility.holes(b_)) plan_->visibility.hide(b_, h_, row_, rows_, cols, s, tile.stride);
  const Index strip = attend::strip_rows<A>();
  for (Index i = 0; i < rows_; i += strip) {
    absorb(i, std::min(strip, rows_ - i), cols.first, cols, s + i * tile.stride, tile.stride, A{1}, nullptr);
  }
  for (const Term<A>& term : call.acting) {
    if (term.add_values == nullptr) continue;
    term.add_values(term.self, tile, s, call.problem.value_dim, out_.data(), call.problem.value_dim);
  }
}

#define BEARING_INSTANTIATE(A)      \
  template struct AttentionPlan<A>; \
  template class Diagonals<A>;      \
  template class ForwardWork<A>;
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
#undef BEARING_INSTANTIATE

}  // namespace bearing
