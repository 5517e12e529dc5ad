#include <bearing/version.hpp>

#define BEARING_TEXT(x) #x
#define BEARING_DOTTED(major, minor, patch) BEARING_TEXT(major) "." BEARING_TEXT(minor) "." BEARING_TEXT(patch)

namespace bearing {

const char* version() noexcept {
  return BEARING_DOTTED(BEARING_VERSION_MAJOR, BEARING_VERSION_MINOR, BEARING_VERSION_PATCH);
}

}  // namespace bearing
