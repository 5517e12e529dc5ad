#pragma once

#include "attention/amx/amx_kernels.hpp"

// Rows of float as operands of matrix tiles: rounded to bfloat16, or in pieces.

namespace bearing::attend::amx {

struct Packing {
  const Kernels* kernels = nullptr;
  int pieces = 1;

  void queries(Index rows, Index dim, const float* from, Index stride, Bfloat16* to) const {
    pieces == 1 ? pack_queries(rows, dim, from, stride, to) : kernels->split_queries({rows, dim, from, stride, to});
  }
  void keys(Index rows, Index dim, const float* from, Index stride, Bfloat16* to) const {
    pieces == 1 ? pack_keys(rows, dim, from, stride, to) : kernels->split_keys({rows, dim, from, stride, to});
  }
  void values(Index rows, Index dim, const float* from, Index stride, Bfloat16* to) const {
    pieces == 1 ? pack_values(rows, dim, from, stride, to) : kernels->split_values({rows, dim, from, stride, to});
  }
  /// Bfloat16 as it is; one piece.
  void queries(Index rows, Index dim, const Bfloat16* from, Index stride, Bfloat16* to) const {
    pack_queries(rows, dim, from, stride, to);
  }
  void keys(Index rows, Index dim, const Bfloat16* from, Index stride, Bfloat16* to) const {
    pack_keys(rows, dim, from, stride, to);
  }
  void values(Index rows, Index dim, const Bfloat16* from, Index stride, Bfloat16* to) const {
    pack_values(rows, dim, from, stride, to);
  }
  /// Numbers of bfloat16 that n numbers take.
  Index room(Index n) const { return n * pieces; }
};

}  // namespace bearing::attend::amx
