#pragma once

// What a build keeps of every encoding. A page that only draws has no use for gradients and float32, which are most of
// the library's code: compile all of it with BEARING_DRAWING_ONLY. The default is everything.

namespace bearing {

#ifdef BEARING_DRAWING_ONLY
inline constexpr bool kept_whole = false;
#else
inline constexpr bool kept_whole = true;
#endif

}  // namespace bearing
