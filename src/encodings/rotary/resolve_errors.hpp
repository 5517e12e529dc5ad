#pragma once

#include <bearing/error.hpp>

#include "text.hpp"

namespace bearing::detail {

/// Throws the error of a Rope that cannot be resolved.
template <class Error = RangeError, class... Pieces>
[[noreturn]] void refuse(const Pieces&... pieces) {
  throw Error(text::concat("[resolve] ", pieces...));
}

}  // namespace bearing::detail
