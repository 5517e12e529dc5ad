#include "terms/relation.hpp"

namespace bearing::relation {

using text::concat;

Reach reach(const Problem& problem, Index b) {
  const auto ends = [&](const Positions& at, Index time) {
    Reach span{max_position, -max_position};
    for (Index t = 0; t < time; ++t) {
      const auto position = static_cast<Index>(at.real(0, b, t));
      span.least = std::min(span.least, position);
      span.most = std::max(span.most, position);
    }
    return span;
  };
  const Reach q = ends(*problem.q_at, problem.q_len), k = ends(*problem.k_at, problem.k_len);
  return {k.least - q.most, k.most - q.least};
}

void check_whole(const char* function, const char* encoding, const Problem& problem) {
  const auto check = [&](const Positions& at, const char* argument, Index time) {
    if (at.integral()) return;
    for (Index b = 0; b < problem.batch; ++b) {
      for (Index t = 0; t < time; ++t) {
        const double position = at.real(0, b, t);
        if (position != std::floor(position)) {
          throw RangeError(
              concat("[", function, "] ", argument, ": must be whole numbers for ", encoding, ", got ", position));
        }
      }
    }
  };
  check(*problem.q_at, "q_at", problem.q_len);
  check(*problem.k_at, "k_at", problem.k_len);
}

void check_dim(const char* function, const char* argument, Index dim, const Problem& problem) {
  if (problem.dim == 0) {
    throw ShapeError(concat("[", function, "] q, k: must be given, ", argument, " multiplies them"));
  }
  if (dim != problem.dim) {
    throw ShapeError(concat("[", function, "] ", argument, ": must have q's dim of ", problem.dim, ", got ", dim));
  }
}

}  // namespace bearing::relation
