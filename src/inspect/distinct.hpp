#pragma once

#include <array>
#include <bearing/inspect.hpp>
#include <cstdint>
#include <vector>

namespace bearing::inspect {

/// 128 bits that stand for a row: among a million rows, two that differ share them with a chance below 2^-88.
using Digest = std::array<std::uint64_t, 2>;

/// Of row r of values[0], its numbers rounded to float64, float32 and bfloat16.
std::array<Digest, 3> digests(const Array& values, Index r);

/// How many differ, and the first two that do not: −1 if all do.
struct Distinct {
  Index count = 0, one = -1, other = -1;
};
Distinct distinct(const std::vector<Digest>& rows);

}  // namespace bearing::inspect
