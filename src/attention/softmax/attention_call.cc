#include "attention/softmax/attention_call.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor_checks.hpp"
#include "terms/row_place.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

template <class A>
template <class T>
AttentionCall<A>::AttentionCall(const char* name, const AttentionInputs<T>& inputs, const TermList<A>& terms,
                                const AttentionOptions<A>& given)
    : CheckedInputs<A>(name, inputs), options(given) {
  if (k.paged()) check_blocks();
  check_numbers();
  check_masks();
  check_starts();
  take(terms);
}

/// Throws RangeError unless the table names blocks of the cache wherever keys exist.
template <class A>
void AttentionCall<A>::check_blocks() const {
  const auto& table = k.table();
  const Index block_size = k.shape()[2];
  if (options.k_lengths.shape[0] != problem.batch) return;  // said elsewhere
  check_memory(function, "k_lengths", options.k_lengths);
  for (Index b = 0; b < problem.batch; ++b) {
    const Index present = std::clamp<Index>(options.k_lengths(b), 0, table.shape[1] * block_size);
    for (Index n = 0; n < (present + block_size - 1) / block_size; ++n) {
      if (table(b, n) >= 0 && table(b, n) < k.shape()[0]) continue;
      throw RangeError(concat("[", function, "] block_table: must name one of ", k.shape()[0], " blocks, got ",
                              table(b, n), " for block ", n, " of sequence ", b));
    }
  }
}

template <class A>
void AttentionCall<A>::check_numbers() {
  const auto dim = static_cast<double>(std::max<Index>(this->in_dim, 1));
  const double c = options.scale ? *options.scale : 1 / std::sqrt(dim);
  scale = static_cast<A>(c);
  if (!std::isfinite(scale)) throw RangeError(concat("[", function, "] scale: must be finite, got ", c));
  const double most = static_cast<double>(std::numeric_limits<A>::max());
  if (!(options.soft_cap >= 0 && options.soft_cap <= most)) {
    throw RangeError(concat("[", function, "] soft_cap: must be positive, or 0 for none, got ", options.soft_cap));
  }
  if (options.soft_cap > 0 && options.soft_cap < static_cast<double>(std::numeric_limits<A>::min())) {
    throw RangeError(concat("[", function, "] soft_cap: must be a normal number, got ", options.soft_cap));
  }
  if (is_given(options.sinks.value)) {
    check_shape(function, "sinks", options.sinks.value, {problem.heads}, "[heads]");
    for (Index h = 0; h < problem.heads; ++h) {
      const A sink = options.sinks.value(h);
      if (sink < std::numeric_limits<A>::infinity()) continue;
      throw RangeError(
          concat("[", function, "] sinks: must be finite or −∞, got ", static_cast<double>(sink), " for head ", h));
    }
  }
  if (options.sinks.grad.data != nullptr) {
    if (!is_given(options.sinks.value) || options.sinks.grad.shape != options.sinks.value.shape) {
      throw ShapeError(concat("[", function, "] sinks.grad: must have the shape of the sinks, ",
                              options.sinks.value.shape, ", got ", options.sinks.grad.shape));
    }
    check_output(function, "sinks.grad", options.sinks.grad);
  }
}

template <class A>
void AttentionCall<A>::check_band() const {
  const Band& band = options.band;
  if (band.chunk < 0) {
    throw RangeError(
        concat("[", function, "] band: must have chunks of at least 1 position, or 0 for none, got ", band.chunk));
  }
  if (band.from && band.to && *band.from > *band.to) {
    throw RangeError(
        concat("[", function, "] band: must not end before it begins, got ", *band.from, " to ", *band.to));
  }
}

template <class A>
void AttentionCall<A>::check_masks() const {
  this->check_mask(options.mask);
  if (options.window.before < -1 || options.window.after < -1) {
    throw RangeError(concat("[", function, "] window: must be whole numbers from 0 on, or -1 for no limit, got (",
                            options.window.before, ", ", options.window.after, ")"));
  }
  check_band();
  if (is_given(options.k_lengths)) {
    check_shape(function, "k_lengths", options.k_lengths, {problem.batch}, "[batch]");
    for (Index b = 0; b < problem.batch; ++b) {
      const Index n = options.k_lengths(b);
      if (n >= 0 && n <= problem.k_len) continue;
      throw RangeError(concat("[", function, "] k_lengths: must be from 0 to k_len = ", problem.k_len, ", got ", n,
                              " for sequence ", b));
    }
  } else if (k.paged() && problem.batch > 0) {
    throw ShapeError(concat("[", function, "] k_lengths: must be given for a paged cache"));
  }
  if (is_given(options.key_mask)) {
    check_shape(function, "key_mask", options.key_mask, {problem.batch, problem.k_len}, "[batch, k_len]");
  }
  if (is_given(options.visible)) {
    check_shape(function, "visible", options.visible, {problem.batch, problem.heads, problem.q_len, problem.k_len},
                "[batch, heads, q_len, k_len]");
  }
}

template <class A>
void AttentionCall<A>::check_starts() const {
  if (!is_given(options.q_starts) && !is_given(options.k_starts)) return;
  if (is_given(options.q_starts) != is_given(options.k_starts)) {
    const bool queries = is_given(options.q_starts);
    throw ShapeError(concat("[", function, "] ", queries ? "k" : "q", "_starts: must be given together with ",
                            queries ? "q" : "k", "_starts ", queries ? options.q_starts.shape : options.k_starts.shape,
                            ", got none"));
  }
  if (options.q_starts.shape != options.k_starts.shape || options.q_starts.shape[0] < 2) {
    throw ShapeError(concat("[", function, "] q_starts, k_starts: must both be [sequences + 1], got ",
                            options.q_starts.shape, " and ", options.k_starts.shape));
  }
  const auto check = [&](const char* argument, View<const Index, 1> starts, const char* of, Index length) {
    check_tensor(function, argument, starts);
    const Index n = starts.shape[0];
    if (starts(0) != 0 || starts(n - 1) != length) {
      throw RangeError(concat("[", function, "] ", argument, ": must rise from 0 to ", of, " = ", length, ", got ",
                              starts(0), " to ", starts(n - 1)));
    }
    for (Index s = 1; s < n; ++s) {
      if (starts(s) >= starts(s - 1)) continue;
      throw RangeError(concat("[", function, "] ", argument, ": must rise from 0 to ", of, " = ", length, ", got ",
                              starts(s), " after ", starts(s - 1), " as number ", s + 1, " of ", n));
    }
  };
  check("q_starts", options.q_starts, "q_len", problem.q_len);
  check("k_starts", options.k_starts, "k_len", problem.k_len);
}

template <class A>
void AttentionCall<A>::take(const TermList<A>& terms) {
  this->turn_by(terms);
  for (const Term<A>& term : terms) {
    if (!acts(term) && term.turn_values == nullptr) continue;
    if (term.check != nullptr) term.check(term.self, function, problem);
    if (term.turn_values != nullptr) value_rows.add(term);
    if (!acts(term)) continue;
    distances_only = distances_only && term.bias != nullptr && term.add_values == nullptr;
    whole_rows = whole_rows || term.whole_rows;
    acting.add(term);
  }
}

template <class A>
bool AttentionCall<A>::by_diagonal(Index b) const {
  return rise_by_one(*problem.q_positions, b, problem.q_len) && rise_by_one(*problem.k_positions, b, problem.k_len);
}

template struct AttentionCall<float>;
template struct AttentionCall<double>;
#define BEARING_INSTANTIATE(T)                                                              \
  template AttentionCall<Compute<T>>::AttentionCall(const char*, const AttentionInputs<T>&, \
                                                    const TermList<Compute<T>>&, const AttentionOptions<Compute<T>>&);
BEARING_EACH_NUMBER(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

}  // namespace bearing
