#include <bearing/reference/cape.hpp>
#include <cmath>

namespace bearing::reference {

double cape_draw(CapeSeed seed, Index sequence, Index n, double bound) {
  const auto next = [](std::uint64_t state) {  // SplitMix64
    std::uint64_t z = state + 0x9E37'79B9'7F4A'7C15u;
    z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
    z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
    return z ^ (z >> 31);
  };
  const auto after = [](std::uint64_t state, Index steps) {
    for (Index i = 0; i < steps; ++i) state += 0x9E37'79B9'7F4A'7C15u;
    return state;
  };
  const std::uint64_t key = next(after(next(seed.value), sequence));
  const double unit = std::ldexp(static_cast<double>(next(after(key, n)) >> 11), -53);
  return (2 * unit - 1) * bound;
}

double cape_moved(double p, double shift, double jitter, double scale) { return (p + shift + jitter) * scale; }

double cape_2d(const Cape2d& cape, Index d, double y, double x) {
  const Index waves = cape.dim / 2, j = d % waves;
  const double angle = static_cast<double>(j), rho = std::pow(10, angle / static_cast<double>(waves - 1)),
               pi = 3.14159265358979323846;
  const double phase = pi * (rho * std::cos(angle) * x + rho * std::sin(angle) * y);
  return d < waves ? std::cos(phase) : std::sin(phase);
}

}  // namespace bearing::reference
