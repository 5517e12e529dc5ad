#pragma once

#include <gtest/gtest.h>
#include <bearing/target.hpp>
#include <string>

namespace bearing::test {

/// Calls body() once on every SIMD target that this machine has, best first; the process keeps the one it had.
template <class Body>
void on_every_target(Body&& body) {
  const std::string before(simd_target());
  for (std::string_view target : simd_targets()) {
    SCOPED_TRACE("reproduce with BEARING_TARGET=" + std::string(target));
    use_simd_target(target);
    body();
  }
  use_simd_target(before);
}

}  // namespace bearing::test
