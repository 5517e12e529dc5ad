#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>
#include <bearing/term.hpp>
#include <optional>

// Angles that the model computes from its data, one for each token, head and pair; query and key rows turn by them,
//
//     (u, v) ← (u cos φ − v sin φ, u sin φ + v cos φ)              φ = angles[b, h, t, pair]
//
//     score of a pair  =  Re( q* k · e^{i(φ_j − φ_i)} )            q, k as complex numbers
//
// In every published form φ is a running sum over the tokens, φ_t = Σ_{s ≤ t} g(x_s), so that a score depends on what
// lies between the key and the query: Selective RoPE (Movahedi, Carstensen, Afzal, Hutter, Orvieto, Cevher 2025, arXiv
// 2511.17388), CARoPE (Veisi et al. 2025, arXiv 2507.23083), the contextual form of GRAPE (Zhang et al. 2025, arXiv
// 2512.07805). They differ in g alone, which the model computes: it takes d_angles back through its running sum. With
// φ = p·θ_i it is RoPE.

namespace bearing {

struct GivenAngles {
  Index head_dim = 0;
  Index rotary_dim = 0;  ///< even, ≤ head_dim; 0: the whole head
  Required<Pairing> pairing;
  RotaryPart part = {};

  /// How many dimensions turn.
  Index turned() const { return rotary_dim == 0 ? head_dim : rotary_dim; }
  /// As of Rope.
  bool operator==(const GivenAngles& other) const {
    return head_dim == other.head_dim && turned() == other.turned() && pairing == other.pairing && part == other.part;
  }
};

/// Which angles a token and head have. Key row j of head h turns by the angles of token j and head h; query row i of
/// head h turns by those of token past + i and head h / group. Without `past` rows of both sides turn by the angles of
/// the tokens that their positions name, as in a cache that is longer than what is filled.
struct AngleUse {
  Index group = 1;                ///< query heads for each head of angles: heads / kv_heads with grouped queries
  std::optional<Index> past = 0;  ///< tokens before the first query: those of a cache
  bool operator==(const AngleUse&) const = default;
};

/// The rotation by given angles. It counts tokens, not positions; queries and keys share the angles.
template <class A>
class BEARING_EXPORT AngleRows {
 public:
  using Arithmetic = A;

  /// angles [batch or 1, heads or 1, time, rotary_dim/2] in radians, any strides; an extent of 1 serves all sequences
  /// or heads. cos and sin of an angle are computed in double, however large it is. Throws ShapeError for a spec that
  /// contradicts itself, for angles of another number of pairs, and for a gradient of another shape or whose elements
  /// share memory.
  AngleRows(const GivenAngles& spec, Param<A, 4> angles, const AngleUse& use = {});

  /// Throws ShapeError for another head_dim, and unless there are angles for each sequence, head and token: `time` is
  /// the number of keys, and past more than that of queries. Where past is empty, `time` is free, and RangeError is
  /// thrown for a position that names no token.
  void check(const char* function, const Problem& problem) const;
  void turn(const RowTile& tile, const A* x, A* y) const;
  /// dφ is the torque of d_y on y; d_x = R(φ)ᵀ d_y. A call keeps dφ for each sequence and head, with grouped queries
  /// twice.
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;
  Index param_size() const { return angles_.grad.data == nullptr ? 0 : block() * (use_.group > 1 ? 2 : 1); }
  void collect(Index batch, Index head, const A* d_params) const;
  void borrows(MemoryList& to) const { to.param("GivenAngles.angles", angles_); }

 private:
  Index pairs() const { return angles_.value.shape[3]; }
  Index block() const { return angles_.value.shape[2] * pairs(); }
  Index token(const RowTile& tile, Index row) const;
  void check_positions(const char* function, const Problem& problem) const;
  void add(Index batch, Index head, const A* d_params) const;

  GivenAngles spec_;
  Index begin_ = 0;  ///< the first feature that turns
  Param<A, 4> angles_;
  AngleUse use_;
};

}  // namespace bearing
