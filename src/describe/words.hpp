#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/encodings/t5.hpp>

#include "describe/values.hpp"

// Words of enumerations that several encodings share.

namespace bearing::describe {

template <>
struct Words<Pairing> {
  static constexpr const char* all[] = {"interleaved", "half"};
};

template <>
struct Words<SinusoidalLayout> {
  static constexpr const char* all[] = {"interleaved", "concatenated", "tensor2tensor", "cos_first",
                                        "cos_first_shifted"};
};

template <>
struct Words<T5Direction> {
  static constexpr const char* all[] = {"bidirectional", "causal"};
};

}  // namespace bearing::describe
