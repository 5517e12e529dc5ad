#include "attention/shared/visibility.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "attention/shared/row_kernels.hpp"
#include "position_order.hpp"

namespace bearing {

namespace {

/// The first of [first, end) for which `past` holds; it holds for all after it.
template <class Past>
Index first_where(Index first, Index end, const Past& past) {
  while (first < end) {
    const Index middle = first + (end - first) / 2;
    if (past(middle)) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

bool rises(const Positions& at, Index b, Index first, Index end) {
  if (at.is_offset()) return true;
  for (Index j = first + 1; j < end; ++j) {
    if (compare_positions(at, j, at, j - 1, b) < 0) return false;
  }
  return true;
}

}  // namespace

template <class A>
Visibility::Visibility(const Problem& problem, const AttentionOptions<A>& options)
    : mask_(options.mask),
      window_(options.window),
      band_(options.band),
      q_len_(problem.q_len),
      k_len_(problem.k_len),
      q_positions_(problem.q_positions),
      k_positions_(problem.k_positions),
      k_lengths_(options.k_lengths),
      q_starts_(options.q_starts),
      k_starts_(options.k_starts),
      key_mask_(options.key_mask),
      visible_(options.visible),
      everywhere_(options.visible.data != nullptr),
      sequences_(static_cast<std::size_t>(problem.batch)) {
  find_runs(problem.batch);
  for (Index b = 0; b < problem.batch; ++b) {
    sequences_[static_cast<std::size_t>(b)].conceals = holes(b) || !shows_all(b);
  }
}

bool Visibility::shows_all(Index b) const {
  if (q_starts_.data == nullptr) return shows_all(b, {0, q_len_, 0, k_len_});
  for (Index s = 0; s + 1 < q_starts_.shape[0]; ++s) {
    if (!shows_all(b, {q_starts_(s), q_starts_(s + 1), k_starts_(s), k_starts_(s + 1)})) return false;
  }
  return true;
}

/// Whether the first and the last query show that all keys are seen: for sure where there is no mask, or a causal one;
/// with a window, where runs of keys move on by one from query to query.
bool Visibility::shows_all(Index b, const Pack& pack) const {
  const Columns exist{pack.k_first, std::min(pack.k_end, existing(b))};
  if (exist.empty()) return true;
  if (pack.q_first == pack.q_end) return false;
  const Columns first = of(b, pack.q_first), last = of(b, pack.q_end - 1);
  if (last.first <= exist.first && last.end >= exist.end) return true;
  const bool in_order = q_positions_->is_offset() && k_positions_->is_offset();
  const bool steady =
      !first.empty() && !last.empty() && band_.chunk == 0 && (by_position() ? in_order : !band_.limits());
  return steady && first.first <= exist.first && last.end >= exist.end;
}

bool Visibility::positions_count() const {
  const bool by_mask = mask_ == Mask::causal || window_.before >= 0 || window_.after >= 0;
  return band_.limits() || (by_position() && by_mask);
}

void Visibility::find_runs(Index batch) {
  for (Index b = 0; b < batch; ++b) {
    Sequence& sequence = sequences_[static_cast<std::size_t>(b)];
    sequence.keys = {0, k_lengths_.data == nullptr ? k_len_ : k_lengths_(b)};
    if (key_mask_.data != nullptr) {
      Columns& keys = sequence.keys;
      while (!keys.empty() && !key_mask_(b, keys.first)) ++keys.first;
      while (!keys.empty() && !key_mask_(b, keys.end - 1)) --keys.end;
      for (Index j = keys.first; j < keys.end; ++j) sequence.holes = sequence.holes || !key_mask_(b, j);
    }
    if (!positions_count()) continue;
    if (k_starts_.data == nullptr) {
      sequence.rising = rises(*k_positions_, b, sequence.keys.first, sequence.keys.end);
    } else {
      for (Index s = 0; s + 1 < k_starts_.shape[0]; ++s) {
        sequence.rising = sequence.rising && rises(*k_positions_, b, k_starts_(s), k_starts_(s + 1));
      }
    }
    sequence.holes = sequence.holes || !sequence.rising;
  }
}

Visibility::Pack Visibility::pack_of(Index i) const {
  if (q_starts_.data == nullptr) return {0, q_len_, 0, k_len_};
  const Index s = first_where(1, q_starts_.shape[0] - 1, [&](Index n) { return q_starts_(n) > i; }) - 1;
  return {q_starts_(s), q_starts_(s + 1), k_starts_(s), k_starts_(s + 1)};
}

Columns Visibility::pack_keys(Index b, const Pack& pack) const {
  const Columns keys = sequences_[static_cast<std::size_t>(b)].keys;
  return {std::max(keys.first, pack.k_first), std::min(keys.end, pack.k_end)};
}

Index Visibility::own_column(Index b, Index i, const Pack& pack) const {
  if (mask_ == Mask::causal_top_left) return i - pack.q_first + pack.k_first;
  const Index existing = k_lengths_.data == nullptr ? k_len_ : k_lengths_(b);
  return i - pack.q_end + std::max(pack.k_first, std::min(pack.k_end, existing));
}

Columns Visibility::by_position(Index b, Index i, Columns keys) const {
  const double m = q_positions_->real(0, b, i);
  const auto key = [&](Index j) { return k_positions_->real(0, b, j); };
  const double least = m - static_cast<double>(window_.before);
  const double most = m + (mask_ == Mask::causal ? 0 : static_cast<double>(window_.after));
  const bool starts = window_.before >= 0, ends = mask_ == Mask::causal || window_.after >= 0;
  const bool one_axis = q_positions_->axes() == 1 && k_positions_->axes() == 1;
  if (k_positions_->is_offset() && one_axis && m == std::floor(m)) {  // whole numbers: nothing is rounded
    const auto column = [&](double j) {
      return static_cast<Index>(std::clamp(j, static_cast<double>(keys.first), static_cast<double>(keys.end)));
    };
    const double origin = key(0);
    if (starts) keys.first = column(least - origin);
    if (ends) keys.end = column(most - origin + 1);
    return keys;
  }
  if (starts) keys.first = first_where(keys.first, keys.end, [&](Index j) { return key(j) >= least; });
  if (ends && (one_axis || mask_ != Mask::causal)) {
    keys.end = first_where(keys.first, keys.end, [&](Index j) { return key(j) > most; });
  } else if (ends) {
    const auto later = [&](Index j) { return compare_positions(*k_positions_, j, *q_positions_, i, b) > 0; };
    keys.end = first_where(keys.first, keys.end, later);
  }
  return keys;
}

Columns Visibility::in_band(Index b, Index i, Columns keys) const {
  const double m = q_positions_->real(0, b, i), chunk = static_cast<double>(band_.chunk);
  // The first key that is nearer than `edge`. Both edges of a band, and those of two bands that meet, are compared
  // alike.
  const auto nearer_than = [&](Index edge) {
    const auto e = static_cast<double>(edge);
    const double limit = band_.chunk == 0 ? m - e : (std::floor(m / chunk) - e + 1) * chunk;
    const auto near = [&](double n) { return band_.chunk == 0 ? n > limit : n >= limit; };
    if (!k_positions_->is_offset()) {
      return first_where(keys.first, keys.end, [&](Index j) { return near(k_positions_->real(0, b, j)); });
    }
    const double column = (band_.chunk == 0 ? std::floor(limit) + 1 : limit) - k_positions_->real(0, b, 0);
    return static_cast<Index>(std::clamp(column, static_cast<double>(keys.first), static_cast<double>(keys.end)));
  };
  return {band_.to ? nearer_than(*band_.to) : keys.first, band_.from ? nearer_than(*band_.from) : keys.end};
}

Columns Visibility::at_positions(Index b, Index i, Columns keys) const {
  if (by_position()) keys = by_position(b, i, keys);
  return band_.limits() && !keys.empty() ? in_band(b, i, keys) : keys;
}

Columns Visibility::of(Index b, Index i) const {
  const Pack pack = pack_of(i);
  Columns keys = pack_keys(b, pack);
  if (!by_position()) {
    const Index own = own_column(b, i, pack);
    if (window_.before >= 0) keys.first = std::max(keys.first, own - std::min(window_.before, k_len_ + q_len_));
    keys.end = std::min(keys.end, own + 1);  // window_.after adds nothing to a causal mask
  }
  return falls(b) || keys.empty() ? keys : at_positions(b, i, keys);
}

bool Visibility::sees(Index b, Index h, Index i, Index j) const {
  const Columns keys = of(b, i);
  return j >= keys.first && j < keys.end && shown(b, h, i, j);
}

bool Visibility::shown(Index b, Index h, Index i, Index j) const {
  if (key_mask_.data != nullptr && !key_mask_(b, j)) return false;
  if (visible_.data != nullptr && !visible_(b, h, i, j)) return false;
  return !falls(b) || !at_positions(b, i, {j, j + 1}).empty();
}

bool Visibility::anything(Index b, Index h, Index row, Index rows, Columns cols) const {
  for (Index i = row; i < row + rows; ++i) {
    const Columns keys = of(b, i);
    for (Index j = std::max(cols.first, keys.first); j < std::min(cols.end, keys.end); ++j) {
      if (shown(b, h, i, j)) return true;
    }
  }
  return false;
}

bool Visibility::conceals() const {
  return std::any_of(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return s.conceals; });
}

void Visibility::mark_seen(Index b, Index h, Index heads, char* seen) const {
  std::fill_n(seen, k_len_, char{0});
  const bool pairs = everywhere_ || !sequences_[static_cast<std::size_t>(b)].rising;
  for (Index i = 0; i < q_len_; ++i) {
    const Columns keys = of(b, i);
    if (!pairs && !keys.empty()) std::fill(seen + keys.first, seen + keys.end, char{1});
    for (Index head = h; pairs && head < h + (everywhere_ ? heads : 1); ++head) {
      for (Index j = keys.first; j < keys.end; ++j) {
        if (seen[j] == 0) seen[j] = shown(b, head, i, j) ? 1 : 0;
      }
    }
  }
  for (Index j = 0; key_mask_.data != nullptr && j < k_len_; ++j) {
    if (!key_mask_(b, j)) seen[j] = 0;
  }
}

void Visibility::mark_row(Index b, Index h, Index i, Columns cols, char* seen) const {
  const Columns keys = common(of(b, i), cols);
  if (keys.empty()) return void(std::fill_n(seen, cols.end - cols.first, char{0}));
  std::fill(seen, seen + (keys.first - cols.first), char{0});
  std::fill(seen + (keys.end - cols.first), seen + (cols.end - cols.first), char{0});
  char* at = seen + (keys.first - cols.first);
  const Index n = keys.end - keys.first;
  std::fill_n(at, n, char{1});
  const auto keep = [&](const bool* shown, Index stride) {
    if (stride == 1) {
      for (Index j = 0; j < n; ++j) at[j] = static_cast<char>(at[j] & static_cast<char>(shown[j]));
    } else {
      for (Index j = 0; j < n; ++j) at[j] = static_cast<char>(at[j] & static_cast<char>(shown[j * stride]));
    }
  };
  if (key_mask_.data != nullptr) keep(&key_mask_(b, keys.first), key_mask_.stride[1]);
  if (visible_.data != nullptr) keep(&visible_(b, h, i, keys.first), visible_.stride[3]);
  for (Index j = 0; falls(b) && j < n; ++j) {
    if (at[j] != 0) at[j] = at_positions(b, i, {keys.first + j, keys.first + j + 1}).empty() ? 0 : 1;
  }
}

Marks Visibility::marks_at(Index b, Index h, Index i) const {
  const bool by_key = sequences_[static_cast<std::size_t>(b)].holes;
  if (falls(b) || (by_key && everywhere_)) return {};
  if (by_key && key_mask_.stride[1] == 1) return {reinterpret_cast<const char*>(&key_mask_(b, 0)), 0};
  if (everywhere_ && visible_.stride[3] == 1) {
    return {reinterpret_cast<const char*>(&visible_(b, h, i, 0)), visible_.stride[2]};
  }
  return {};
}

void Visibility::mark_tile(Index b, Index h, Index row, Index rows, Columns cols, char* seen, Index stride) const {
  for (Index i = row; i < row + rows; ++i, seen += stride) mark_row(b, h, i, cols, seen);
}

template <class A>
void Visibility::hide(Index b, Index h, Index row, Index rows, Columns cols, A* s, Index stride) const {
  constexpr A infinity = std::numeric_limits<A>::infinity();
  std::array<char, 512> seen;
  const auto most = static_cast<Index>(seen.size());
  for (Index i = row; i < row + rows; ++i, s += stride) {
    const bool by_pair = falls(b);
    const Columns keys = by_pair ? cols : common(of(b, i), cols);
    if (keys.empty()) {
      std::fill_n(s, cols.end - cols.first, -infinity);
      continue;
    }
    std::fill_n(s, keys.first - cols.first, -infinity);
    std::fill(s + (keys.end - cols.first), s + (cols.end - cols.first), -infinity);
    const bool in_order = (key_mask_.data == nullptr || key_mask_.stride[1] == 1) &&
                          (visible_.data == nullptr || visible_.stride[3] == 1);
    if (!by_pair && in_order) {  // where they lie
      const auto keep = [&](const bool* shown) {
        attend::hide(keys.end - keys.first, reinterpret_cast<const char*>(shown), s + (keys.first - cols.first));
      };
      if (key_mask_.data != nullptr) keep(&key_mask_(b, keys.first));
      if (visible_.data != nullptr) keep(&visible_(b, h, i, keys.first));
      continue;
    }
    for (Index first = keys.first; first < keys.end; first += most) {
      const Columns some{first, std::min(first + most, keys.end)};
      mark_row(b, h, i, some, seen.data());
      attend::hide(some.end - some.first, seen.data(), s + (first - cols.first));
    }
  }
}

#define BEARING_INSTANTIATE(A)                                                 \
  template Visibility::Visibility(const Problem&, const AttentionOptions<A>&); \
  template void Visibility::hide(Index, Index, Index, Index, Columns, A*, Index) const;
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing
