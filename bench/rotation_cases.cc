// Prefill: many tokens of one sequence, forward and backward, in place and out of place, in every type and layout.

#include <algorithm>

#include "buffers.hpp"
#include "demands.hpp"
#include "harness.hpp"
#include "models.hpp"

namespace bearing::bench {
namespace {

enum class Layout { bthd, bhtd };
enum class Direction { forward, backward };

struct Shape {
  Pairing pairing;
  Index batch, time;
  Layout layout = Layout::bthd;
  Direction direction = Direction::forward;

  Index tokens() const { return batch * time; }
};

template <class T>
View<T, 4> tensor(T* data, const Shape& s) {
  return s.layout == Layout::bthd ? bthd(data, s.batch, s.time, heads, head_dim)
                                  : bhtd(data, s.batch, heads, s.time, head_dim);
}

template <class T>
std::string name(const Shape& s, const char* where) {
  std::string text = s.direction == Direction::forward ? "rotate/" : "backward/";
  text += std::string(dtype_name<T>()) + "/" + pairing_name(s.pairing) + "/" + where + "/";
  if (s.layout == Layout::bhtd) text += "heads_first/";
  return text + size_text(tensor_bytes<T>(s.tokens()));
}

template <class T>
std::function<void()> prepare_in_place(const Shape& s, Index threads) {
  fill_with_numbers(source(), tensor_bytes<T>(s.tokens()));
  const auto& table = long_table<Compute<T>>(s.pairing);
  const View<T, 4> x = tensor(source().as<T>(), s);
  if (s.direction == Direction::backward) {
    return [=, &table] { rotate_backward(table, x, Positions{}, executor(threads)); };
  }
  return [=, &table] { rotate(table, x, Positions{}, executor(threads)); };
}

template <class T>
void add_in_place(const Shape& s, Index threads, double demand) {
  add({.name = name<T>(s, "in_place"),
       .threads = threads,
       .bars = {{limit(tensor_bytes<T>(s.tokens()), threads), demand}},
       .prepare = [=] { return prepare_in_place<T>(s, threads); }});
}

/// A case beside itself. How far its ratio is from 1 is how little other ratios say.
void add_beside_itself(const Shape& s, Index threads) {
  const std::string same = name<float>(s, "in_place");
  add({.name = "itself/" + same, .threads = threads, .bars = {{same + "/" + std::to_string(threads)}}, .prepare = [=] {
         return prepare_in_place<float>(s, threads);
       }});
}

template <class T>
void add_out_of_place(const Shape& s, Index threads, double demand) {
  const std::size_t bytes = tensor_bytes<T>(s.tokens());
  std::vector<Bar> bars = {{plain_copy(bytes, threads), demand}};
  constexpr std::size_t most = std::size_t{64} << 20;  // four walks of more would take gigabytes
  if (demand >= 1 && bytes <= most) bars.push_back({nt_copy(bytes, threads)});
  add({.name = name<T>(s, "out_of_place"), .threads = threads, .bars = bars, .prepare = [=]() -> std::function<void()> {
         fill_with_numbers(source(), bytes);
         const auto& table = long_table<Compute<T>>(s.pairing);
         const View<const T, 4> in = tensor(source().as<T>(), s);
         const View<T, 4> out = tensor(destination().as<T>(), s);
         return [=, &table] { rotate_to(table, in, out, Positions{}, executor(threads)); };
       }});
}

template <class T>
void add_type(Pairing pairing) {
  constexpr Index tokens = 4096;
  constexpr Index tokens_of_64_mib = 4096 * static_cast<Index>(sizeof(float)) / static_cast<Index>(sizeof(T));
  constexpr Index tokens_in_l2 = tokens_of_64_mib / 256;  // 256 KiB
  for (const Index threads : {1, 2}) {
    const double demand = in_place_demand<T>(threads);
    add_in_place<T>({pairing, 1, tokens}, threads, demand);
    add_in_place<T>({pairing, 1, tokens, Layout::bthd, Direction::backward}, threads, demand);
    add_out_of_place<T>({pairing, 1, std::max(tokens, tokens_of_64_mib)}, threads, 1.0);
  }
  add_in_place<T>({pairing, 1, tokens_in_l2}, 1, cached_demand<T>(pairing));
  add_out_of_place<T>({pairing, 1, tokens_in_l2}, 1, 0.8);
}

}  // namespace

void add_rotation_cases() {
  for (const Index tokens : {16, 4096}) {
    for (const Index threads : {1, 2}) {
      if (tokens == 4096 || threads == 1) add_beside_itself({Pairing::half, 1, tokens}, threads);
    }
  }
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    add_type<float>(pairing);
    add_type<double>(pairing);
    add_type<Bfloat16>(pairing);
    add_type<Float16>(pairing);
    for (const Index threads : {1, 2}) {
      add_in_place<float>({pairing, 1, 4096, Layout::bhtd}, threads, in_place_demand<float>(threads));
      add_in_place<Bfloat16>({pairing, 1, 4096, Layout::bhtd}, threads, in_place_demand<Bfloat16>(threads));
      // Memory alone: eight such sequences, past any cache.
      add_in_place<float>({pairing, 8, 4096}, threads, in_place_demand<float>(threads));
      add_in_place<Bfloat16>({pairing, 8, 4096}, threads, in_place_demand<Bfloat16>(threads));
      add_in_place<Float16>({pairing, 8, 4096}, threads, in_place_demand<Float16>(threads));
      add_out_of_place<float>({pairing, 8, 4096}, threads, 1.0);
    }
  }
}

}  // namespace bearing::bench
