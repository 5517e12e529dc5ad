#pragma once

#include <bearing/description.hpp>
#include <bearing/encodings/rope_mixed.hpp>

namespace bearing {

/// The authors' start for frequencies [axes, sets, head_dim/2], which Cayley-STRING shares: for two axes in directions
/// drawn per head, else as RoPE's on each axis. The filling's number is the base; its spec is not looked at.
void fill_rope_mixed(const RopeMixed& mixed, const Filling& all);

}  // namespace bearing
