#pragma once

#include <bearing/export.hpp>
#include <string_view>
#include <vector>

namespace bearing {

/// The SIMD instruction set that kernels use: the best that this machine has, or the one named by the environment
/// variable BEARING_TARGET (read once, at the first call; RangeError if it names none of simd_targets()). Rotations,
/// tables, inputs and biases by distance have the same bits on all of them; attention, and products of queries and keys
/// with vectors by distance, agree to rounding.
BEARING_EXPORT std::string_view simd_target();

/// The instruction sets that this build has and this machine can run, best first. The last is one that every machine of
/// the architecture runs: scalar on x86-64, NEON on arm64.
BEARING_EXPORT std::vector<std::string_view> simd_targets();

/// Makes every later call in this process use the named target. Throws RangeError for one that is not in
/// simd_targets(). For tests and measurements.
BEARING_EXPORT void use_simd_target(std::string_view name);

}  // namespace bearing
