#pragma once

#include <bearing/export.hpp>
#include <bearing/rows_by_index.hpp>

// Transformer-XL's relative encoding (Dai, Yang, Yang, Carbonell, Le, Salakhutdinov 2019, arXiv 1901.02860, §3.3):
//
//     s_ij = scale · [ q_i·k_j + u·k_j + (q_i + v)·r_{m−n} ]        r_δ = W_R [sin(δω) | cos(δω)],  ω_i = base^(−2i/D)
//
// The term adds what follows q_i·k_j; scale multiplies all of it. The offset δ = m − n is query minus key, as in the
// paper. No other encoding here counts its rows that way. u and v are multiplied with a head's k and r directly; texts
// that write uᵀ W_q repeat a mistake in RoFormer's paper. Tokens of a memory are keys at earlier positions, and nothing
// else.
//
// The authors' code shifts a matrix so that rows meet their offsets. At keys after the query it leaves numbers of other
// rows, which the mask hides. Here every score is the formula's.

namespace bearing {

/// Which keys the term adds to.
enum class TransformerXLDirection {
  bidirectional,  ///< all
  causal,         ///< those up to the query: it adds nothing to scores of keys after it, which are to be masked
};

struct TransformerXL {
  Index first_offset = 0;  ///< of r's first row; negative where keys come after queries
  Index clamp_len = 0;     ///< offsets beyond ±clamp_len count as ±clamp_len; 0: they do not
  TransformerXLDirection direction = TransformerXLDirection::causal;

  bool operator==(const TransformerXL&) const = default;
};

/// r [heads, offsets, dim]: row o is for the offset first_offset + o, and serves as it comes out of
/// transformer_xl_relative() below, or from any other source; a row's features lie side by side, rows may lie in
/// falling order (a negative stride), as the authors' do. u, v [heads, dim]; the files call them r_w_bias and r_r_bias.
///
///     ∂u = scale Σ dS_ij k_j      ∂v = scale Σ dS_ij r_{m−n}      ∂r_δ = scale Σ_{m−n=δ} dS_ij (q_i + v)
///     ∂q_i = scale Σ_j dS_ij r_{m−n}      ∂k_j = scale Σ_i dS_ij u
///
/// Throws RangeError for clamp_len < 0, ShapeError for parameters that do not fit one another; a call throws ShapeError
/// for other heads or another dim, and RangeError for positions that are not whole or whose offset has no row.
template <class A>
class BEARING_EXPORT TransformerXLTerm {
 public:
  using Arithmetic = A;

  TransformerXLTerm(const TransformerXL& xl, Param<A, 3> r, Param<A, 2> u, Param<A, 2> v);

  void check(const char* function, const Problem& problem) const;
  void add_scores(const Tile<A>& tile, A* s) const;
  void add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const;
  auto grad_block(Index, Index head) const {
    return ParamBlock(slice(r_.grad, 0, head), slice(u_.grad, 0, head), slice(v_.grad, 0, head));
  }
  /// What the term is.
  const RowsByIndexList<A>& rows_by_index() const { return terms_; }
  void borrows(MemoryList& to) const {
    to.param("TransformerXL.r", r_), to.param("TransformerXL.u", u_), to.param("TransformerXL.v", v_);
  }
  Index scratch_size(Index rows, Index cols) const;

 private:
  TransformerXL xl_;
  Param<A, 3> r_;
  Param<A, 2> u_, v_;
  RowsByIndexList<A> terms_;
};

/// Writes r [heads, offsets, dim], row o for the offset first_offset + o (clamped): the sinusoids [sin | cos] of that
/// offset, in double, times w_r [heads · dim, d_model] (r_net.weight). Throws ShapeError unless the extents fit and
/// d_model is even, RangeError for a base that is not positive or offsets past ±2^31; nothing is written then.
template <class A>
BEARING_EXPORT void transformer_xl_relative(const TransformerXL& xl, std::type_identity_t<View<const A, 2>> w_r,
                                            View<A, 3> r, double base = 10'000);

/// The gradient of transformer_xl_relative(): d_w_r [heads · dim, d_model] += Σ_offsets d_r ⊗ sinusoids, from d_r
/// [heads, offsets, dim]. Errors as transformer_xl_relative().
template <class A>
BEARING_EXPORT void transformer_xl_relative_backward(const TransformerXL& xl,
                                                     std::type_identity_t<View<const A, 3>> d_r, View<A, 2> d_w_r,
                                                     double base = 10'000);

}  // namespace bearing
