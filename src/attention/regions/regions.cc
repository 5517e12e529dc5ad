#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/regions.hpp>
#include <cmath>

#include "text.hpp"

// The regions that papers draw.

namespace bearing {

namespace {

void require(const char* spec, const char* member, Index value, Index least) {
  if (value >= least && value <= max_position) return;
  throw RangeError(text::concat("[", spec, "] ", member, ": must be from ", least, " to 2^31, got ", value));
}

}  // namespace

double Placing::operator()(double p) const {
  const auto around = static_cast<double>(period), many = static_cast<double>(group);
  if (period > 0) p -= around * std::floor(p / around);
  if (group != 1) p = std::floor(p / many);
  const double at = step * p + offset;
  return most ? std::min(at, *most) : at;
}

std::vector<Region> regions(const DualChunk& of) {
  require("DualChunk", "local_size", of.local_size, 0);
  require("DualChunk", "chunk_size", of.chunk_size, of.local_size + 1);
  const Index s = of.chunk_size - of.local_size;
  const auto length = static_cast<double>(s), most = static_cast<double>(of.chunk_size);
  const Placing within{.period = s}, next{.period = s, .offset = length, .most = most};
  const Placing farthest{.step = 0, .offset = std::min(2 * length - 1, most)};
  return {{{.to = 1, .chunk = s}, within, within},
          {{.from = 1, .to = 2, .chunk = s}, next, within},
          {{.from = 2, .chunk = s}, farthest, within}};
}

std::vector<Region> regions(const SelfExtend& of) {
  require("SelfExtend", "group", of.group, 1);
  require("SelfExtend", "window", of.window, 0);
  const Placing key{.group = of.group};
  const Index groups = of.window / of.group;
  const Placing query{.group = of.group, .offset = static_cast<double>(of.window - groups)};
  return {{{.to = of.window}}, {{.from = of.window}, query, key}};
}

std::vector<Region> regions(const ReRope& of) {
  require("ReRope", "window", of.window, 0);
  if (!(of.step >= 0 && of.step <= 1)) {
    throw RangeError(text::concat("[ReRope] step: must be from 0 to 1, got ", of.step));
  }
  const double offset = static_cast<double>(of.window) * (1 - of.step);
  return {{{.to = of.window}}, {{.from = of.window}, {.step = of.step, .offset = offset}, {.step = of.step}}};
}

}  // namespace bearing
