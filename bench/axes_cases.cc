// Positions with several axes: M-RoPE and 2-D, judged by the 1-D rotation of the same bytes.

#include <memory>
#include <vector>

#include "buffers.hpp"
#include "harness.hpp"
#include "models.hpp"

namespace bearing::bench {
namespace {

constexpr Index tokens = 4096;

/// The tokens of 4 frames of 32 × 32 patches (three axes), or of an image of 64 × 64 (two).
std::vector<Index> grid(Index axes) {
  std::vector<Index> at(static_cast<std::size_t>(axes * tokens));
  const Index side = axes == 3 ? 32 : 64;
  for (Index t = 0; t < tokens; ++t) {
    const Index coordinates[] = {t / (side * side), t / side % side, t % side};
    for (Index a = 0; a < axes; ++a) at[static_cast<std::size_t>(a * tokens + t)] = coordinates[3 - axes + a];
  }
  return at;
}

void add_axes(const char* form, const RopeAxes& axes, Index count, Pairing pairing) {
  const std::size_t bytes = tensor_bytes<float>(tokens);
  const std::string place = std::string("f32/") + pairing_name(pairing) + "/in_place/" + size_text(bytes);
  for (const Index threads : {1, 2}) {
    add({.name = std::string(form) + "/" + place,
         .threads = threads,
         .bars = {{"rotate/" + place + "/" + std::to_string(threads), 0.9}},
         .prepare = [=]() -> std::function<void()> {
           fill_with_numbers(source(), bytes);
           const Rope rope{.head_dim = head_dim, .base = base, .pairing = pairing, .axes = axes};
           const auto table = std::make_shared<const RopeTable<float>>(rope, tokens);
           const auto at = std::make_shared<const std::vector<Index>>(grid(count));
           const View<float, 4> x = bthd(source().as<float>(), 1, tokens, heads, head_dim);
           return [=] { rotate(*table, x, Positions(dense(at->data(), count, 1, tokens)), executor(threads)); };
         }});
  }
}

}  // namespace

void add_axes_cases() {
  add_axes("mrope_sections", RopeAxes::sections({16, 24, 24}), 3, Pairing::half);
  add_axes("mrope_interleaved", RopeAxes::interleaved({24, 20, 20}), 3, Pairing::half);
  add_axes("axial_2d", RopeAxes::axial({32, 32}), 2, Pairing::half);
  add_axes("axial_2d", RopeAxes::axial({32, 32}), 2, Pairing::interleaved);
}

}  // namespace bearing::bench
