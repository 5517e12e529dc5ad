#include "terms/relation.hpp"

namespace bearing::relation {

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
  const Reach q = ends(*problem.q_positions, problem.q_len), k = ends(*problem.k_positions, problem.k_len);
  return {k.least - q.most, k.most - q.least};
}

}  // namespace bearing::relation
