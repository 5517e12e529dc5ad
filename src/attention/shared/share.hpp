#pragma once

#include <cmath>
#include <numbers>

#include "attention/softmax/softmax_kernels.hpp"

namespace bearing::attend {

/// exp(x), x the logarithm of a share of a whole: 0 where weights count as 0.
template <class A>
A share(A x) {
  constexpr A least = least_exponent<A> * std::numbers::ln2_v<A>;
  return x < least ? A{0} : std::exp(x);
}

}  // namespace bearing::attend
