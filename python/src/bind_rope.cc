// RoPE: its specs, tables and rotations.

#include <bearing/encodings/rope.hpp>

#include "bind.hpp"
#include "encodings.hpp"
#include "specs.hpp"
#include "words.hpp"

namespace bearing::python {

template <>
struct Words<RotaryPart::Where> {
  static constexpr std::array<Word<RotaryPart::Where>, 3> words{
      {{RotaryPart::Where::first, "first"}, {RotaryPart::Where::last, "last"}, {RotaryPart::Where::window, "window"}}};
};
template <>
struct Words<RopeAxes::Order> {
  static constexpr std::array<Word<RopeAxes::Order>, 3> words{{{RopeAxes::Order::contiguous, "contiguous"},
                                                               {RopeAxes::Order::interleaved, "interleaved"},
                                                               {RopeAxes::Order::listed, "listed"}}};
};
template <>
struct Words<RopeAxes::Frequencies> {
  static constexpr std::array<Word<RopeAxes::Frequencies>, 3> words{{{RopeAxes::Frequencies::shared, "shared"},
                                                                     {RopeAxes::Frequencies::restarted, "restarted"},
                                                                     {RopeAxes::Frequencies::strided, "strided"}}};
};

void bind_rope(nb::module_& m) {
  spec(m, "NoScaling", "RoPE as trained.", NoScaling{});
  spec(m, "LinearScaling", "Position interpolation: every frequency divided by the factor.", LinearScaling{},
       Field{"factor", &LinearScaling::factor});
  spec(m, "RotaryPart", "Which part of the head turns.", RotaryPart{}, Field{"where", &RotaryPart::where},
       Field{"begin", &RotaryPart::begin});
  spec(m, "RopeAxes", "Which coordinate turns which pair.", RopeAxes{}, Field{"pairs", &RopeAxes::pairs},
       Field{"order", &RopeAxes::order}, Field{"frequencies", &RopeAxes::frequencies});
}

}  // namespace bearing::python
