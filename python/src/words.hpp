#pragma once

#include <bearing/attention.hpp>
#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/sinusoidal.hpp>
#include <bearing/rows.hpp>

#include "members.hpp"

// Words of enumerations that several sources share.

namespace bearing::python {

template <>
struct Words<Pairing> {
  static constexpr std::array<Word<Pairing>, 2> words{{{Pairing::interleaved, "interleaved"}, {Pairing::half, "half"}}};
};

template <>
struct Words<Side> {
  static constexpr std::array<Word<Side>, 2> words{{{Side::query, "query"}, {Side::key, "key"}}};
};

template <>
struct Words<Mask> {
  static constexpr std::array<Word<Mask>, 4> words{{{Mask::none, "none"},
                                                    {Mask::causal, "causal"},
                                                    {Mask::causal_top_left, "causal_top_left"},
                                                    {Mask::causal_bottom_right, "causal_bottom_right"}}};
};

template <>
struct Words<SinusoidalLayout> {
  static constexpr std::array<Word<SinusoidalLayout>, 5> words{
      {{SinusoidalLayout::interleaved, "interleaved"},
       {SinusoidalLayout::concatenated, "concatenated"},
       {SinusoidalLayout::tensor2tensor, "tensor2tensor"},
       {SinusoidalLayout::cos_first, "cos_first"},
       {SinusoidalLayout::cos_first_shifted, "cos_first_shifted"}}};
};

}  // namespace bearing::python
