#pragma once

#include <bearing/view.hpp>

namespace bearing::fire {

/// How a row of scores is written: added to what is there, or to 0; then past the caches or through them.
enum class Write { add, put, put_past_caches };

/// Runs of keys that lie on one line of the network each, in order: where they end, and the line's number. Whole
/// numbers, kept as A.
template <class A>
struct Runs {
  const A *end, *line;

  void next() { ++end, ++line; }
};

/// s[j] += height[line] + slope[line]·(psi[j]·scale), j < cols, or = 0 + that. The runs hold all keys. Products and
/// sums are rounded one by one: every instruction set gives the same bits.
template <class A>
void write_row(Index cols, const A* psi, A scale, const Runs<A>& runs, const A* slope, const A* height, Write how,
               A* s);

/// After the last row that went past the caches: other threads see all of them before what this one writes next.
void finish_writes();

}  // namespace bearing::fire
