#include "attention/linear/linear_call.hpp"

#include <cmath>

#include "text.hpp"

namespace bearing::linear {

using text::concat;

namespace {

void check_options(const char* function, const LinearAttentionOptions& options) {
  if (!(options.epsilon >= 0 && std::isfinite(options.epsilon))) {
    throw RangeError(concat("[", function, "] epsilon: must be a number of at least 0, got ", options.epsilon));
  }
  if (options.feature_map == FeatureMap::identity && options.normaliser == Normaliser::sum) {
    throw RangeError(concat("[", function, "] normaliser: must be none if the feature map is identity, as its sums ",
                            "may vanish, got sum"));
  }
}

template <class A>
void check_terms_turn(const char* function, const TermList<A>& terms) {
  for (Index t = 0; t < terms.size; ++t) {
    const Term<A>& term = terms.terms[static_cast<std::size_t>(t)];
    if (term.turn != nullptr && term.bias == nullptr && term.add_scores == nullptr && term.add_values == nullptr)
      continue;
    throw ShapeError(concat("[", function, "] terms: must all be encodings of rows, as there are no scores to add ",
                            "to, got one that acts elsewhere as number ", t + 1, " of ", terms.size));
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

}  // namespace

template <class A>
template <class T>
Call<A>::Call(const char* name, const LinearAttentionInputs<T>& in, const TermList<A>& terms,
              const LinearAttentionOptions& given)
    : CheckedInputs<A>(name, in), options(given) {
  const Problem& p = this->problem;
  check_options(name, options);
  if (options.mask == Mask::causal) {
    check_sorted(name, "q_positions", in.q_positions, p.batch, p.q_len);
    check_sorted(name, "k_positions", in.k_positions, p.batch, p.k_len);
  }
  check_terms_turn(name, terms);
  this->turn_by(terms);
  count_visible();
}

template <class A>
void Call<A>::count_visible() {
  const Problem& p = this->problem;
  visible.resize(block_numbers(p.batch, p.q_len));
  for (Index b = 0; b < p.batch; ++b) {
    Index* seen = visible.data() + b * p.q_len;
    for (Index i = 0, j = 0; i < p.q_len; ++i) {
      switch (static_cast<Mask>(options.mask)) {
        case Mask::none:
          j = p.k_len;
          break;
        case Mask::causal:
          while (j < p.k_len && p.k_positions->real(0, b, j) <= p.q_positions->real(0, b, i)) ++j;
          break;
        case Mask::causal_top_left:
          j = std::min(i + 1, p.k_len);
          break;
        case Mask::causal_bottom_right:
          j = std::max<Index>(i + 1 + p.k_len - p.q_len, 0);
          break;
      }
      seen[i] = j;
    }
  }
}

template <class A>
template <class S>
bool Call<A>::check_state(const char* argument, const LinearState<S>& state) const {
  if (state.s.data == nullptr && state.z.data == nullptr) return false;
  const auto check = [&](const char* part, auto x, const auto& shape, const char* axes) {
    const std::string name = concat(argument, part);
    if (x.shape != shape) {
      throw ShapeError(concat("[", this->function, "] ", name, ": must be ", axes, " = ", shape, ", got ", x.shape));
    }
    check_tensor(this->function, name.c_str(), x);
    if constexpr (Writable<S>) check_distinct(this->function, name.c_str(), x);
  };
  const Problem& p = this->problem;
  check(".s", state.s, std::array{p.batch, p.kv_heads, p.dim, p.value_dim}, "[batch, kv_heads, rows_dim, value_dim]");
  if (normalised()) check(".z", state.z, std::array{p.batch, p.kv_heads, this->in_dim}, "[batch, kv_heads, dim]");
  return true;
}

template struct Call<float>;
template struct Call<double>;
#define BEARING_INSTANTIATE(T)                                                                               \
  template Call<Compute<T>>::Call(const char*, const LinearAttentionInputs<T>&, const TermList<Compute<T>>&, \
                                  const LinearAttentionOptions&);
BEARING_EACH_NUMBER(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

#define BEARING_INSTANTIATE(A)                                                  \
  template bool Call<A>::check_state(const char*, const LinearState<A>&) const; \
  template bool Call<A>::check_state(const char*, const LinearState<const A>&) const;
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing::linear
