// Decoding: one token each of 1, 8 and 64 sequences, at positions scattered over the context.

#include <memory>
#include <vector>

#include "buffers.hpp"
#include "demands.hpp"
#include "harness.hpp"
#include "models.hpp"

namespace bearing::bench {
namespace {

template <class T>
void add_decode(Pairing pairing, Index sequences, Index threads, double demand) {
  const std::size_t bytes = tensor_bytes<T>(sequences);
  Case c{.name = std::string("decode/") + dtype_name<T>() + "/" + pairing_name(pairing) + "/in_place/" +
                 std::to_string(sequences) + "_sequences",
         .threads = threads,
         .bars = {{limit(bytes, threads), demand}},
         .prepare = [=]() -> std::function<void()> {
           fill_with_numbers(source(), bytes);
           const auto& table = long_table<Compute<T>>(pairing);
           const View<T, 4> x = bthd(source().as<T>(), sequences, 1, heads, head_dim);
           const auto at = std::make_shared<const std::vector<Index>>(scattered(sequences));
           return [=, &table] { rotate(table, x, Positions(dense(at->data(), sequences, 1)), executor(threads)); };
         }};
  if (sequences == 1) c.at_most_us = one_token_us<T>();
  add(c);
}

/// A step of 64 sequences whose positions are others each time, as in a server: the table's rows come from memory.
template <class T>
void add_moving_decode() {
  constexpr Index sequences = 64, steps = 2048;
  const std::size_t bytes = tensor_bytes<T>(sequences);
  add({.name = std::string("decode/") + dtype_name<T>() + "/half/in_place/" + std::to_string(sequences) + "_moving",
       .bars = {{limit(bytes, 1), 0}},
       .prepare = [=]() -> std::function<void()> {
         fill_with_numbers(source(), bytes);
         const auto& table = long_table<Compute<T>>(Pairing::half);
         const View<T, 4> x = bthd(source().as<T>(), sequences, 1, heads, head_dim);
         const auto at = std::make_shared<const std::vector<Index>>(scattered(steps * sequences));
         return [=, &table, step = Index{0}]() mutable {
           rotate(table, x, Positions(dense(at->data() + step * sequences, sequences, 1)));
           step = (step + 1) % steps;
         };
       }});
}

}  // namespace

void add_decode_cases() {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    add_decode<float>(pairing, 1, 1, 0);
    add_decode<Bfloat16>(pairing, 1, 1, 0);
    for (const Index sequences : {8, 64}) {
      add_decode<float>(pairing, sequences, 1, decode_demand<float>());
      add_decode<Bfloat16>(pairing, sequences, 1, decode_demand<Bfloat16>());
      add_decode<Float16>(pairing, sequences, 1, decode_demand<Float16>());
    }
    add_decode<float>(pairing, 64, 2, 0);
  }
  add_moving_decode<float>();
  add_moving_decode<Bfloat16>();
}

}  // namespace bearing::bench
