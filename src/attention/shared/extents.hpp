#pragma once

#include <bearing/view.hpp>
#include <cstddef>

// Counts, in whole pieces and as vectors take them.

namespace bearing {

inline std::size_t size(Index n) { return static_cast<std::size_t>(n); }
inline std::size_t size_if(bool wanted, Index n) { return wanted ? size(n) : 0; }

/// Pieces of `each` that n fill, the last one maybe not whole.
inline Index pieces(Index n, Index each) { return (n + each - 1) / each; }
inline Index round_up(Index n, Index to) { return pieces(n, to) * to; }

}  // namespace bearing
