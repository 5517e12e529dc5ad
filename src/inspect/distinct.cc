#include "inspect/distinct.hpp"

#include <bearing/half.hpp>
#include <bit>
#include <map>

namespace bearing::inspect {
namespace {

/// splitmix64's: every bit of z moves every bit of the result.
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void add(Digest& digest, double number) {
  const auto bits = std::bit_cast<std::uint64_t>(number + 0.0);  // −0 is 0
  digest[0] = mixed(digest[0] ^ bits);
  digest[1] = mixed(digest[1] + bits + 0x9E3779B97F4A7C15u);
}

}  // namespace

std::array<Digest, 3> digests(const Array& values, Index r) {
  std::array<Digest, 3> of{};
  for (Index c = 0; c < values.shape[2]; ++c) {
    const double number = values(0, r, c);
    const auto single = static_cast<float>(number);
    add(of[0], number);
    add(of[1], static_cast<double>(single));
    add(of[2], static_cast<double>(static_cast<float>(Bfloat16(single))));
  }
  return of;
}

Distinct distinct(const std::vector<Digest>& rows) {
  std::map<Digest, Index> seen;
  Distinct d;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto [same, added] = seen.emplace(rows[r], static_cast<Index>(r));
    if (!added && d.one < 0) d.one = same->second, d.other = static_cast<Index>(r);
  }
  d.count = static_cast<Index>(seen.size());
  return d;
}

}  // namespace bearing::inspect
