#pragma once

#include <bearing/export.hpp>

// The one place that states the version: CMakeLists.txt reads it from here.
#define BEARING_VERSION_MAJOR 0
#define BEARING_VERSION_MINOR 1
#define BEARING_VERSION_PATCH 0

namespace bearing {

/// "major.minor.patch" of the library that was linked (the macros give the headers' version).
BEARING_EXPORT const char* version() noexcept;

}  // namespace bearing
