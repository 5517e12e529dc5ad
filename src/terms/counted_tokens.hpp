#pragma once

#include <bearing/error.hpp>
#include <bearing/term.hpp>
#include <optional>

#include "text.hpp"

// Which tokens the queries are, for encodings of scores that count tokens: key j is token j, and query i is token
// past + i. Without `past` a query is the token that its position names, as in a cache that is longer than what is
// filled.

namespace bearing {

/// What `past` is, as descriptions say it.
inline constexpr const char* past_text =
    "How many tokens come before the first query; None: a query is the token that its position names.";

/// What to do where there are more keys than a call counts tokens.
inline constexpr const char* longer_cache =
    "; for a cache that is longer than what is filled, past None takes tokens by their positions";

/// The token of a tile's first query; the others follow it.
template <class A>
Index first_token(std::optional<Index> past, const Tile<A>& tile) {
  if (past || tile.rows == 0) return past.value_or(0) + tile.row;
  return static_cast<Index>(tile.q_positions[0][0]);
}

/// Throws RangeError unless keys stand at 0, 1, 2, … and the queries of a sequence at some of these, one after the
/// other.
inline void check_tokens_at_positions(const char* function, const Problem& problem) {
  const auto fail = [&](const char* argument, const char* must, const char* row, const Positions& at, Index b,
                        Index t) {
    throw RangeError(text::concat("[", function, "] ", argument, ": must ", must, " where past is None, got ",
                                  at.real(0, b, t), " for ", row, " ", t, " of sequence ", b));
  };
  const Positions &queries = *problem.q_positions, &keys = *problem.k_positions;
  const bool counted = keys.is_offset() && keys.first() == 0;
  for (Index b = 0; b < problem.batch; ++b) {
    for (Index j = 0; j < problem.k_len && !counted; ++j) {
      if (keys.real(0, b, j) == static_cast<double>(j)) continue;
      fail("k_positions", "be 0, 1, 2, …, as keys are tokens in their order,", "key", keys, b, j);
    }
    for (Index i = 0; i < problem.q_len; ++i) {
      const double first = queries.real(0, b, 0), here = queries.real(0, b, i);
      const bool whole = static_cast<double>(static_cast<Index>(here)) == here;
      const bool in_order = here - first == static_cast<double>(i);
      if (whole && in_order && here >= 0 && here < static_cast<double>(problem.k_len)) continue;
      const std::string must = text::concat("rise by one from token to token and be from 0 to ", problem.k_len - 1);
      fail("q_positions", must.c_str(), "query", queries, b, i);
    }
  }
}

/// Throws ShapeError or RangeError unless queries are tokens that there are keys of.
inline void check_past(const char* function, std::optional<Index> past, const Problem& problem) {
  if (!past) return check_tokens_at_positions(function, problem);
  const Index wanted = problem.k_len - problem.q_len;
  if (*past >= 0 && *past == wanted) return;
  throw ShapeError(text::concat("[", function, "] past: must be k_len - q_len = ", wanted,
                                ", the tokens before the first query, got ", *past,
                                *past < wanted ? longer_cache : ""));
}

}  // namespace bearing
