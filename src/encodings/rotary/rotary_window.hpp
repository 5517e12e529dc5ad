#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>

#include "encodings/limits.hpp"
#include "text.hpp"

namespace bearing {

/// The part of a head that turns: `dim` features from `begin`.
struct RotaryWindow {
  Index begin = 0, dim = 0;
};

/// The window that a spec's members state. `rotary_dim` 0: the whole head. Throws ShapeError, in the name of
/// `function`, for a head or a part of it that cannot be, or a pairing that has no name.
inline RotaryWindow rotary_window(const char* function, Index head_dim, Index rotary_dim, Pairing pairing,
                                  const RotaryPart& part) {
  const auto refuse = [&](const auto&... pieces) { throw ShapeError(text::concat("[", function, "] ", pieces...)); };
  if (head_dim < 2 || head_dim > largest_dim) {
    refuse("head_dim: must be from 2 to ", largest_dim, ", got ", head_dim);
  }
  if (rotary_dim == 0 && head_dim % 2 != 0) {
    refuse("head_dim: must be even where all of it turns, got ", head_dim);
  }
  const Index dim = rotary_dim == 0 ? head_dim : rotary_dim, room = head_dim - dim;
  if (dim < 2 || dim % 2 != 0 || dim > head_dim) {
    refuse("rotary_dim: must be even and from 2 to head_dim = ", head_dim, ", got ", dim);
  }
  if (pairing != Pairing::interleaved && pairing != Pairing::half) {
    refuse("pairing: must be interleaved or half, got ", static_cast<Index>(pairing));
  }
  if (part.where < RotaryPart::Where::first || part.where > RotaryPart::Where::window) {
    refuse("part.where: must be first, last or window, got ", static_cast<Index>(part.where));
  }
  if (part.where == RotaryPart::Where::window) {
    if (part.begin < 0 || part.begin > room) {
      refuse("part.begin: must be from 0 to head_dim - rotary_dim = ", room, ", got ", part.begin);
    }
    return {part.begin, dim};
  }
  if (part.begin != 0) refuse("part.begin: must be 0 unless the part is a window, got ", part.begin);
  return {part.where == RotaryPart::Where::last ? room : 0, dim};
}

}  // namespace bearing
