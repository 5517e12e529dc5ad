#pragma once

#include <bearing/error.hpp>
#include <bearing/term.hpp>
#include <cmath>
#include <string_view>

#include "text.hpp"

// Checks that biases share.

namespace bearing {

/// A parameter is there, has the shape that it must have, and so has its gradient, if one is wanted.
template <class A, int Rank>
void check_param(std::string_view function, std::string_view name, const Param<A, Rank>& param,
                 const std::type_identity_t<std::array<Index, Rank>>& shape, std::string_view axes) {
  if (param.value.data == nullptr || param.value.shape != shape) {
    throw ShapeError(text::concat("[", function, "] ", name, ": must be ", axes, " = ", shape, ", got ",
                                  param.value.data == nullptr ? "nothing" : text::concat("shape ", param.value.shape)));
  }
  if (param.grad.data != nullptr && param.grad.shape != shape) {
    throw ShapeError(text::concat("[", function, "] ", name, ".grad: must have the shape of its parameter, ", shape,
                                  ", got ", param.grad.shape));
  }
}

/// Positions on the first axis are whole numbers.
inline void check_whole(std::string_view function, std::string_view argument, std::string_view encoding,
                        const Positions& at, Index batch, Index time) {
  if (at.integral()) return;
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < time; ++t) {
      const double p = at.real(0, b, t);
      if (p == std::floor(p)) continue;
      throw RangeError(text::concat("[", function, "] ", argument, ": must be whole numbers for ", encoding, ", got ",
                                    p, " for token ", t, " of sequence ", b));
    }
  }
}

}  // namespace bearing
