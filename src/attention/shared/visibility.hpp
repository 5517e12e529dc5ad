#pragma once

#include <algorithm>
#include <bearing/attention.hpp>
#include <bearing/term.hpp>
#include <vector>

namespace bearing {

/// The columns [first, end).
struct Columns {
  Index first = 0, end = 0;

  bool empty() const { return first >= end; }
  /// Grows to reach over others.
  void reach_over(Columns others) {
    if (others.empty()) return;
    *this = empty() ? others : Columns{std::min(first, others.first), std::max(end, others.end)};
  }
};
inline Columns common(Columns x, Columns y) { return {std::max(x.first, y.first), std::min(x.end, y.end)}; }

/// The columns that each row of a strip sees, as kernels take them.
struct RowRuns {
  std::vector<Index> first, end;  ///< [rows]

  explicit RowRuns(Index rows) : first(static_cast<std::size_t>(rows)), end(first) {}
  /// Of the columns `among`, counted from `origin`.
  void put(Index row, Columns sees, Columns among, Index origin) {
    first[static_cast<std::size_t>(row)] = std::clamp(sees.first, among.first, among.end) - origin;
    end[static_cast<std::size_t>(row)] = std::clamp(sees.end, among.first, among.end) - origin;
  }
};

/// One mark for each key, not 0 where a query sees it; queries `stride` apart.
struct Marks {
  const char* of = nullptr;
  Index stride = 0;
};

/// Which keys a query sees, of all that masks, windows, packing and padding say together. What a query sees lies in one
/// run of keys; where positions fall or masks have holes, keys inside the run may still be hidden.
class Visibility {
 public:
  /// Reads what was checked by check_options(). Throws std::bad_alloc.
  template <class A>
  Visibility(const Problem& problem, const AttentionOptions<A>& options);

  /// All keys that query i sees are among these.
  Columns of(Index b, Index i) const;
  /// The keys of a sequence that exist and are shown to anybody.
  Columns keys(Index b) const { return sequences_[static_cast<std::size_t>(b)].keys; }
  /// How many keys exist.
  Index existing(Index b) const { return k_lengths_.data == nullptr ? k_len_ : k_lengths_(b); }
  /// Whether keys inside of() may be hidden from a query.
  bool holes(Index b) const { return everywhere_ || sequences_[static_cast<std::size_t>(b)].holes; }
  /// Whether there may be keys that exist and that no query sees; of any sequence.
  bool conceals(Index b) const { return sequences_[static_cast<std::size_t>(b)].conceals; }
  bool conceals() const;
  /// seen [k_len]: whether any query of heads h … h + heads − 1 sees a key.
  void mark_seen(Index b, Index h, Index heads, char* seen) const;
  /// The caller's own marks of a query and those after it, which say all that of() does not; null: they do not.
  Marks marks_at(Index b, Index h, Index i) const;
  /// seen [rows, cols of them], rows `stride` apart: which keys each query sees.
  void mark_tile(Index b, Index h, Index row, Index rows, Columns cols, char* seen, Index stride) const;
  /// Whether a query sees a key, by definition.
  bool sees(Index b, Index h, Index i, Index j) const;
  /// Whether any query of a tile sees any of its keys.
  bool anything(Index b, Index h, Index row, Index rows, Columns cols) const;
  /// s = −∞ where a key is hidden; column j of the tile is key cols.first + j.
  template <class A>
  void hide(Index b, Index h, Index row, Index rows, Columns cols, A* s, Index stride) const;

 private:
  struct Sequence {
    Columns keys;        ///< those that exist and that key_mask shows at all
    bool rising = true;  ///< positions of keys never fall, within each packed sequence
    bool holes = false;  ///< keys inside are hidden
    bool conceals = false;
  };
  /// A packed sequence's queries and keys.
  struct Pack {
    Index q_first, q_end, k_first, k_end;
  };

  void find_runs(Index batch);
  /// Whether queries surely see all keys that exist; of a packed sequence alone.
  bool shows_all(Index b) const;
  bool shows_all(Index b, const Pack& pack) const;
  /// seen [cols]: which of these keys query i sees. A row at a time, without a branch for each pair.
  void mark_row(Index b, Index h, Index i, Columns cols, char* seen) const;
  /// Whether a query sees a key among of(b, i).
  bool shown(Index b, Index h, Index i, Index j) const;
  Pack pack_of(Index i) const;
  Columns pack_keys(Index b, const Pack& pack) const;
  bool by_position() const { return mask_ == Mask::none || mask_ == Mask::causal; }
  /// Whether a mask, a window or a band asks for positions.
  bool positions_count() const;
  /// Whether that must be asked of each pair, as the positions of keys fall somewhere.
  bool falls(Index b) const { return positions_count() && !sequences_[static_cast<std::size_t>(b)].rising; }
  /// Those of `keys` that positions do not hide: a run, where they rise.
  Columns at_positions(Index b, Index i, Columns keys) const;
  Columns in_band(Index b, Index i, Columns keys) const;
  /// The query's own column, for masks by index.
  Index own_column(Index b, Index i, const Pack& pack) const;
  Columns by_position(Index b, Index i, Columns keys) const;

  Mask mask_;
  Window window_;
  Band band_;
  Index q_len_, k_len_;
  const Positions *q_positions_, *k_positions_;
  View<const Index, 1> k_lengths_, q_starts_, k_starts_;
  View<const bool, 2> key_mask_;
  View<const bool, 4> visible_;
  bool everywhere_ = false;
  std::vector<Sequence> sequences_;
};

}  // namespace bearing
