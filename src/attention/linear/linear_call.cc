#include "attention/linear/linear_call.hpp"

#include <cmath>

#include "tensor_checks.hpp"
#include "text.hpp"

namespace bearing::linear {

using text::concat;

namespace {

template <class T>
void check_shapes(const char* function, const LinearAttentionInputs<T>& in) {
  check_tensor(function, "q", in.q);
  check_tensor(function, "k", in.k);
  check_tensor(function, "v", in.v);
  const auto &q = in.q.shape, &k = in.k.shape, &v = in.v.shape;
  if (k[0] != q[0] || k[3] != q[3] || (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0)) {
    throw ShapeError(concat("[", function, "] k: must be [batch, kv_heads, k_len, dim] with q's batch and dim and ",
                            "kv_heads that divide its heads, q has shape ", q, ", got ", k));
  }
  if (v[0] != k[0] || v[1] != k[1] || v[2] != k[2]) {
    throw ShapeError(
        concat("[", function, "] v: must be [batch, kv_heads, k_len, value_dim] for k with shape ", k, ", got ", v));
  }
}

void check_options(const char* function, const LinearAttentionOptions& options) {
  if (!(options.epsilon >= 0 && std::isfinite(options.epsilon))) {
    throw RangeError(concat("[", function, "] epsilon: must be a number of at least 0, got ", options.epsilon));
  }
  if (options.feature_map == FeatureMap::identity && options.normaliser == Normaliser::sum) {
    throw RangeError(concat("[", function, "] normaliser: must be none with FeatureMap::identity, whose sums may ",
                            "vanish, got sum"));
  }
}

/// Each term serves queries, and keys as queries of their own, as turn() would ask it; the dimension follows from term
/// to term.
template <class A>
void check_row_terms(const char* function, Call<A>& call, const Positions& q_positions, const Positions& k_positions) {
  call.rows_dim = call.dim;
  for (Index t = 0; t < call.terms.size; ++t) {
    const Term<A>& term = call.terms.terms[static_cast<std::size_t>(t)];
    if (term.turn == nullptr || term.bias != nullptr || term.add_scores != nullptr || term.add_values != nullptr) {
      throw ShapeError(concat("[", function, "] terms: must all be row encodings, there are no scores to add to, got ",
                              "one that acts elsewhere as number ", t + 1, " of ", call.terms.size));
    }
    for (const Side side : {Side::query, Side::key}) {
      Problem problem{.batch = call.batch, .dim = call.rows_dim};
      problem.heads = problem.kv_heads = side == Side::query ? call.heads : call.kv_heads;
      problem.q_len = problem.k_len = side == Side::query ? call.q_len : call.k_len;
      problem.q_positions = problem.k_positions = side == Side::query ? &q_positions : &k_positions;
      problem.side = side;
      if (term.check != nullptr) term.check(term.self, function, problem);
    }
    if (term.out_dim != nullptr) call.rows_dim = term.out_dim(term.self, call.rows_dim);
  }
}

void check_sorted(const char* function, const char* argument, const Positions& at, Index batch, Index time) {
  if (at.is_offset()) return;
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 1; t < time; ++t) {
      const double before = at.real(0, b, t - 1), here = at.real(0, b, t);
      if (before <= here) continue;
      throw RangeError(concat("[", function, "] ", argument, ": must not fall from token to token for a causal mask ",
                              "by position, got ", here, " after ", before, " at token ", t, " of sequence ", b));
    }
  }
}

template <class A>
void count_visible(Call<A>& call, const Positions& q_positions, const Positions& k_positions) {
  call.visible.resize(block_numbers(call.batch, call.q_len));
  for (Index b = 0; b < call.batch; ++b) {
    Index* visible = call.visible.data() + b * call.q_len;
    const Index k_len = call.k_len;
    for (Index i = 0, j = 0; i < call.q_len; ++i) {
      switch (static_cast<Mask>(call.options.mask)) {
        case Mask::none:
          j = k_len;
          break;
        case Mask::causal:
          while (j < k_len && k_positions.real(0, b, j) <= q_positions.real(0, b, i)) ++j;
          break;
        case Mask::causal_top_left:
          j = std::min(i + 1, k_len);
          break;
        case Mask::causal_bottom_right:
          j = std::max<Index>(i + 1 + k_len - call.q_len, 0);
          break;
      }
      visible[i] = j;
    }
  }
}

}  // namespace

template <class T>
Call<Compute<T>> check_call(const char* function, const LinearAttentionInputs<T>& in, const TermList<Compute<T>>& terms,
                            const LinearAttentionOptions& options) {
  check_shapes(function, in);
  Call<Compute<T>> call{.options = options};
  call.batch = in.q.shape[0], call.heads = in.q.shape[1], call.q_len = in.q.shape[2], call.dim = in.q.shape[3];
  call.kv_heads = in.k.shape[1], call.k_len = in.k.shape[2], call.value_dim = in.v.shape[3];
  call.terms = terms;
  check_options(function, options);
  check_positions(function, "q_positions", in.q_positions, call.batch, call.q_len);
  check_positions(function, "k_positions", in.k_positions, call.batch, call.k_len);
  if (options.mask == Mask::causal) {
    check_sorted(function, "q_positions", in.q_positions, call.batch, call.q_len);
    check_sorted(function, "k_positions", in.k_positions, call.batch, call.k_len);
  }
  check_row_terms(function, call, in.q_positions, in.k_positions);
  count_visible(call, in.q_positions, in.k_positions);
  return call;
}

template <class A, class S>
bool check_state(const char* function, const char* argument, const Call<A>& call, const LinearState<S>& state) {
  const std::array<Index, 4> s{call.batch, call.kv_heads, call.rows_dim, call.value_dim};
  const std::array<Index, 3> z{call.batch, call.kv_heads, call.dim};
  if (state.s.data == nullptr && state.z.data == nullptr) return false;
  const std::string s_name = concat(argument, ".s"), z_name = concat(argument, ".z");
  if (state.s.shape != s) {
    throw ShapeError(concat("[", function, "] ", s_name, ": must be [batch, kv_heads, rows_dim, value_dim] = ", s,
                            ", got ", state.s.shape));
  }
  check_tensor(function, s_name.c_str(), state.s);
  if constexpr (Writable<S>) check_distinct(function, s_name.c_str(), state.s);
  if (!call.normalised()) return true;
  if (state.z.shape != z) {
    throw ShapeError(
        concat("[", function, "] ", z_name, ": must be [batch, kv_heads, dim] = ", z, ", got ", state.z.shape));
  }
  check_tensor(function, z_name.c_str(), state.z);
  if constexpr (Writable<S>) check_distinct(function, z_name.c_str(), state.z);
  return true;
}

#define BEARING_INSTANTIATE(T)                                                                                       \
  template Call<Compute<T>> check_call<T>(const char*, const LinearAttentionInputs<T>&, const TermList<Compute<T>>&, \
                                          const LinearAttentionOptions&);
BEARING_EACH_NUMBER(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

#define BEARING_INSTANTIATE(A)                                                                      \
  template bool check_state<A, A>(const char*, const char*, const Call<A>&, const LinearState<A>&); \
  template bool check_state<A, const A>(const char*, const char*, const Call<A>&, const LinearState<const A>&);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing::linear
