#include <algorithm>
#include <array>
#include <bearing/figures.hpp>
#include <cmath>

#include "lasting.hpp"

namespace bearing::inspect {
namespace {

using Stops = std::array<Colour, 17>;

// viridis and cividis (Smith, van der Walt, Firing; Nuñez, Anderton, Renslow), at seventeen places.
constexpr Stops viridis{{{68, 1, 84},
                         {72, 24, 106},
                         {71, 45, 123},
                         {66, 64, 134},
                         {59, 82, 139},
                         {51, 99, 141},
                         {44, 114, 142},
                         {38, 130, 142},
                         {33, 145, 140},
                         {31, 160, 136},
                         {40, 174, 128},
                         {63, 188, 115},
                         {94, 201, 98},
                         {132, 212, 75},
                         {173, 220, 48},
                         {216, 226, 25},
                         {253, 231, 37}}};
constexpr Stops cividis{{{0, 34, 78},
                         {0, 46, 106},
                         {26, 56, 111},
                         {50, 67, 109},
                         {67, 78, 108},
                         {83, 90, 109},
                         {97, 101, 111},
                         {111, 112, 115},
                         {125, 124, 120},
                         {140, 136, 120},
                         {155, 148, 118},
                         {171, 160, 114},
                         {188, 174, 108},
                         {205, 187, 99},
                         {222, 201, 88},
                         {240, 216, 70},
                         {254, 232, 56}}};

Colour between(const Stops& stops, double x) {
  const double at = std::clamp(std::isnan(x) ? 0 : x, 0.0, 1.0) * static_cast<double>(stops.size() - 1);
  const auto i = std::min(static_cast<std::size_t>(at), stops.size() - 2);
  const double part = at - static_cast<double>(i);
  const auto mix = [&](int a, int b) { return static_cast<int>(std::lround(a + part * (b - a))); };
  const Colour &a = stops[i], &b = stops[i + 1];
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

}  // namespace

const std::vector<Colour>& palette() {
  // After Okabe and Ito, each as dark or as light as both backgrounds ask for.
  static const auto& all = lasting(std::vector<Colour>{{0, 114, 178},
                                                       {213, 94, 0},
                                                       {0, 145, 105},
                                                       {184, 96, 150},
                                                       {164, 118, 10},
                                                       {36, 139, 189},
                                                       {128, 128, 128},
                                                       {138, 95, 199}});
  return all;
}

Colour sequential_colour(double x) { return between(viridis, x); }
Colour diverging_colour(double x) { return between(cividis, x); }
Colour family_colour(double x) { return between(viridis, 0.3 + 0.29 * std::clamp(std::isnan(x) ? 0 : x, 0.0, 1.0)); }

Colour colour_of(const Cells& cells, double value) {
  if (cells.map == ColourMap::categories) {
    const auto n = static_cast<Index>(palette().size());
    const Index i = std::isfinite(value) ? static_cast<Index>(std::llround(value)) % n : 0;
    return palette()[static_cast<std::size_t>(i < 0 ? i + n : i)];
  }
  const double x = cells.high > cells.low ? (value - cells.low) / (cells.high - cells.low) : 0.5;
  return cells.map == ColourMap::diverging ? diverging_colour(x) : sequential_colour(x);
}

}  // namespace bearing::inspect
