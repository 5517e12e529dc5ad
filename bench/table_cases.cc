// Making the table of 131,072 positions × 64 frequencies, and rotating with the small-memory form instead of it.

#include <memory>

#include "buffers.hpp"
#include "demands.hpp"
#include "harness.hpp"
#include "models.hpp"

namespace bearing::bench {
namespace {

constexpr Index length = 131'072;
constexpr Index pairs = head_dim / 2;
constexpr std::size_t table_bytes = std::size_t{2} * length * pairs * sizeof(float);

Rope rope(Pairing pairing) { return {.head_dim = head_dim, .base = base, .pairing = pairing}; }

void add_fill(Index threads) {
  add({.name = "fill_table/f32/131072x64",
       .threads = threads,
       .bars = {{nt_write(table_bytes, threads), table_demand()}},
       .prepare = [=]() -> std::function<void()> {
         const auto frequencies = std::make_shared<const RopeFrequencies>(resolve(rope(Pairing::half)));
         float* cos = destination().as<float>();
         float* sin = cos + length * pairs;
         return [=] {
           fill(*frequencies, Positions{}, dense(cos, length, pairs), dense(sin, length, pairs), executor(threads));
         };
       }});
}

void add_compact(Pairing pairing, Index threads) {
  constexpr Index tokens = 4096, first = 126'976;
  const std::size_t bytes = tensor_bytes<float>(tokens);
  const std::string place = std::string("f32/") + pairing_name(pairing) + "/in_place/" + size_text(bytes);
  add({.name = "compact_table/" + place,
       .threads = threads,
       .bars = {{"rotate/" + place + "/" + std::to_string(threads), 0.97}},
       .prepare = [=]() -> std::function<void()> {
         fill_with_numbers(source(), bytes);
         const auto table = std::make_shared<const RopeTable<float>>(rope(pairing), length,
                                                                     TableOptions{.memory = TableMemory::compact});
         const View<float, 4> x = bthd(source().as<float>(), 1, tokens, heads, head_dim);
         return [=] { rotate(*table, x, Positions(first), executor(threads)); };
       }});
}

}  // namespace

void add_table_cases() {
  for (const Index threads : {1, 2}) {
    add_fill(threads);
    add_compact(Pairing::half, threads);
    add_compact(Pairing::interleaved, threads);
  }
}

}  // namespace bearing::bench
