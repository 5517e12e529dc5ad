#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/xpos.hpp>
#include <bearing/export.hpp>
#include <bearing/term.hpp>

// RoPE and xPos behind the contract of row encodings (term.hpp), for attention and other code that takes any encoding.
// The numbers are those of rotate() and rotate_backward(), bit for bit; these two rotate whole tensors faster.

namespace bearing {

/// Every encoding that is a RopeTable: RoPE, its scalings, M-RoPE and other multi-axis forms, partial rotation.
/// It refers to the table, which must outlive it.
template <class A>
class BEARING_EXPORT RotaryRows {
 public:
  using Arithmetic = A;

  explicit RotaryRows(const RopeTable<A>& table) : table_(&table) {}
  explicit RotaryRows(RopeTable<A>&&) = delete;

  /// Throws what rotate() throws for these positions and this dimension.
  void check(const char* function, const Problem& problem) const;
  Index turn_scratch(Index dim) const;
  void turn(const RowTile& tile, const A* x, A* y) const;
  /// d_x = a·R(pθ)ᵀ d_y. The table's own parameters have their gradients in rope_gradients.hpp.
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;

 private:
  const RopeTable<A>* table_;
};

/// xPos: queries turn by one table, keys by the other.
template <class A>
class BEARING_EXPORT XposRows {
 public:
  using Arithmetic = A;

  explicit XposRows(const XposTable<A>& table) : q_(table.q), k_(table.k) {}
  explicit XposRows(XposTable<A>&&) = delete;

  void check(const char* function, const Problem& problem) const;
  Index turn_scratch(Index dim) const { return q_.turn_scratch(dim); }
  void turn(const RowTile& tile, const A* x, A* y) const { of(tile.side).turn(tile, x, y); }
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const {
    of(tile.side).turn_grads(tile, x, d_y, d_x, d_params);
  }

 private:
  const RotaryRows<A>& of(Side side) const { return side == Side::query ? q_ : k_; }

  RotaryRows<A> q_, k_;
};

}  // namespace bearing
