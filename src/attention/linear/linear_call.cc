#include "attention/linear/linear_call.hpp"

#include <cmath>

#include "position_order.hpp"
#include "terms/checks.hpp"
#include "text.hpp"

namespace bearing::linear {

using text::concat;

namespace {

template <class A>
void check_options(const char* function, const LinearAttentionOptions& options) {
  if (!(options.epsilon >= 0 && std::isfinite(options.epsilon))) {
    throw RangeError(concat("[", function, "] epsilon: must be a number of at least 0, got ", options.epsilon));
  }
  if (options.epsilon > static_cast<double>(std::numeric_limits<A>::max())) {
    throw RangeError(concat("[", function, "] epsilon: must be finite in float, got ", options.epsilon));
  }
  if (!(options.feature_map >= FeatureMap::elu_plus_one && options.feature_map <= FeatureMap::identity)) {
    throw RangeError(concat("[", function, "] feature_map: must be elu_plus_one, relu or identity, got ",
                            static_cast<Index>(options.feature_map)));
  }
  if (options.normaliser != Normaliser::sum && options.normaliser != Normaliser::none) {
    throw RangeError(
        concat("[", function, "] normaliser: must be sum or none, got ", static_cast<Index>(options.normaliser)));
  }
  if (options.feature_map == FeatureMap::identity && options.normaliser == Normaliser::sum) {
    throw RangeError(concat("[", function, "] normaliser: must be none if the feature map is identity, as its sums ",
                            "may vanish, got sum"));
  }
}

template <class A>
void check_terms(const char* function, const TermList<A>& terms) {
  check_list(function, terms);
  for (Index t = 0; t < terms.size; ++t) {
    const Term<A>& term = terms.terms[static_cast<std::size_t>(t)];
    const bool turns = term.turn != nullptr && term.bias == nullptr && term.add_scores == nullptr;
    const bool values = term.add_values != nullptr || term.turn_values != nullptr;
    if (!values && (turns || term.log_decay != nullptr)) continue;
    throw ShapeError(concat("[", function, "] terms: must all be encodings of rows or decays of the state, as there ",
                            "are no scores to add to, got one that acts elsewhere as number ", t + 1, " of ",
                            terms.size));
  }
}

/// A causal mask goes by all axes, a decay by the first one.
void check_sorted(const char* function, const char* argument, const Positions& at, Index batch, Index time,
                  bool causal) {
  if (at.is_offset()) return;
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 1; t < time; ++t) {
      if (causal ? compare_positions(at, t - 1, at, t, b) <= 0 : at.real(0, b, t - 1) <= at.real(0, b, t)) continue;
      Index axis = 0;
      while (at.real(axis, b, t - 1) <= at.real(axis, b, t)) ++axis;
      throw RangeError(concat("[", function, "] ", argument, ": must not fall from token to token for ",
                              causal ? "a causal mask by position" : "a state that decays", ", got ",
                              at.real(axis, b, t), " after ", at.real(axis, b, t - 1), " at token ", t, " of sequence ",
                              b, at.axes() == 1 ? "" : concat(" on axis ", axis)));
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
  this->check_mask(options.mask);
  check_options<A>(name, options);
  check_terms(name, terms);
  this->turn_by(terms);
  take_decays(terms);
  if (options.mask == Mask::causal || decays_by(false)) {
    const bool causal = options.mask == Mask::causal;
    check_sorted(name, "q_positions", in.q_positions, p.batch, p.q_len, causal);
    check_sorted(name, "k_positions", in.k_positions, p.batch, p.k_len, causal);
  }
  count_visible();
  if (decays.size > 0 && !visible.empty()) check_steps();
  for (const Term<A>& term : decays) {
    if (term.counts_tokens && p.k_len > 0) check_parts(term);
  }
}

template <class A>
void Call<A>::take_decays(const TermList<A>& terms) {
  Problem of = this->problem;
  of.heads = of.kv_heads;  // each of which has a state
  for (const Term<A>& term : terms) {
    if (term.log_decay == nullptr) continue;
    if (options.mask == Mask::none) {
      throw RangeError(concat("[", this->function, "] mask: must be a causal one if the state decays from key to key, ",
                              "got none"));
    }
    if (normalised() && term.by_channel && of.dim != this->in_dim) {
      throw ShapeError(concat("[", this->function, "] normaliser: must be none if each channel decays on its own and ",
                              "encodings change the rows' dimension, as the features then have other channels, got ",
                              "sum for rows of ", of.dim, " and features of ", this->in_dim));
    }
    if (term.check != nullptr) term.check(term.self, this->function, of);
    decays.add(term);
  }
}

template <class A>
bool Call<A>::decays_by(bool tokens) const {
  const auto is = [tokens](const Term<A>& term) { return term.counts_tokens == tokens; };
  return std::any_of(decays.begin(), decays.begin() + decays.size, is);
}

template <class A>
Index Call<A>::channels() const {
  const auto own = [](const Term<A>& term) { return term.by_channel; };
  return std::any_of(decays.begin(), decays.begin() + decays.size, own) ? std::max<Index>(this->problem.dim, 1) : 1;
}

/// Throws RangeError for gates that would let the state grow.
template <class A>
void Call<A>::check_parts(const Term<A>& term) const {
  const Problem& p = this->problem;
  std::vector<double> log(static_cast<std::size_t>(term.by_channel ? p.dim : 1));
  for (Index b = 0; b < p.batch; ++b) {
    for (Index h = 0; h < p.kv_heads; ++h) {
      for (Index t = 0; t < p.k_len; ++t) {
        const double here = p.k_positions->real(0, b, t), before = t > 0 ? p.k_positions->real(0, b, t - 1) : here - 1;
        StepTile tile{.batch = b, .head = h, .row = t, .rows = 1, .channels = std::ssize(log)};
        tile.from = &before, tile.to = &here;
        std::fill(log.begin(), log.end(), 0.0);
        term.log_decay(term.self, tile, log.data());
        for (const double x : log) {
          if (x <= 0) continue;
          throw RangeError(concat("[", this->function,
                                  "] terms: a decay's logarithm must be at most 0, as a state that ",
                                  "grows has no end, got ", x, " for token ", t, " of head ", h, " of sequence ", b));
        }
      }
    }
  }
}

/// Throws RangeError unless no query stands before a key that it sees, and each at its own key where tokens are
/// counted.
template <class A>
void Call<A>::check_steps() const {
  const Problem& p = this->problem;
  const bool by_token = decays_by(true), by_position = decays_by(false);
  for (Index b = 0; b < p.batch; ++b) {
    for (Index i = 0; i < p.q_len; ++i) {
      const Index seen = visible_of(b)[i], own = p.k_len - p.q_len + i + 1;
      if (by_token && seen != own) {
        throw RangeError(concat("[", this->function, "] mask: must let query i see the keys up to its own, number ",
                                "k_len - q_len + i, as the state decays from token to token, got ", seen, " keys of ",
                                p.k_len, " for query ", i, " of sequence ", b));
      }
      if (seen == 0 || !by_position) continue;
      const double key = p.k_positions->real(0, b, seen - 1), here = p.q_positions->real(0, b, i);
      if (key <= here) continue;
      throw RangeError(concat("[", this->function, "] q_positions: must be at least those of the keys that a query ",
                              "sees, as the state decays from them to it, got ", here, " for query ", i, " and ", key,
                              " for key ", seen - 1, " of sequence ", b));
    }
  }
}

template <class A>
void Call<A>::count_visible() {
  const Problem& p = this->problem;
  visible.resize(block_numbers(p.batch, p.q_len));
  if (visible.empty()) return;  // and nothing bounds how many sequences there are
  for (Index b = 0; b < p.batch; ++b) {
    Index* seen = visible.data() + b * p.q_len;
    for (Index i = 0, j = 0; i < p.q_len; ++i) {
      switch (static_cast<Mask>(options.mask)) {
        case Mask::none:
          j = p.k_len;
          break;
        case Mask::causal:
          while (j < p.k_len && compare_positions(*p.k_positions, j, *p.q_positions, i, b) <= 0) ++j;
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
  if (!is_given(state.s) && !is_given(state.z)) return false;
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
