// Making the table of sinusoids, against the memory that it is written to and against the loop that everyone writes.

#include <bearing/rows.hpp>
#include <cmath>
#include <memory>

#include "buffers.hpp"
#include "described.hpp"
#include "harness.hpp"

namespace bearing::bench {
namespace {

struct Size {
  Index rows, dim;

  std::size_t bytes() const { return static_cast<std::size_t>(rows * dim) * sizeof(float); }
  std::string name() const { return "f32/" + std::to_string(rows) + "x" + std::to_string(dim); }
};

std::shared_ptr<const Described> sinusoids(const std::string& layout, Size size) {
  const Sizes sizes{.batch = 1, .heads = 1, .kv_heads = 1, .q_len = size.rows, .k_len = size.rows, .dim = size.dim};
  return std::make_shared<const Described>("sinusoidal", sizes, Described::Members{{"layout", Value{layout}}});
}

/// What a tutorial has: powers, then a sine and a cosine in double for every number.
void naive(Index rows, Index dim, float* to) {
  for (Index p = 0; p < rows; ++p) {
    for (Index i = 0; i < dim / 2; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(10'000, -2 * static_cast<double>(i) / static_cast<double>(dim));
      to[p * dim + 2 * i] = static_cast<float>(std::sin(angle));
      to[p * dim + 2 * i + 1] = static_cast<float>(std::cos(angle));
    }
  }
}

void add_sinusoidal(const std::string& layout, Size size, Index threads) {
  const std::string place = "sinusoidal/" + layout + "/" + size.name();
  // For information: ours has to be told from a memory-bound loop, and the naive one from ours.
  std::vector<Bar> bars = {{nt_write(size.bytes(), threads)}};
  if (layout == "interleaved" && threads == 1) bars.push_back({"naive/" + place + "/1"});
  add({.name = place, .threads = threads, .bars = bars, .prepare = [=]() -> std::function<void()> {
         const auto encoding = sinusoids(layout, size);
         float* const to = destination().as<float>();
         return [=] { fill<float>(encoding->input(), {}, dense(to, size.rows, size.dim), executor(threads)); };
       }});
}

void add_naive(Size size) {
  add({.name = "naive/sinusoidal/interleaved/" + size.name(),
       .alone = false,
       .prepare = [=]() -> std::function<void()> {
         float* const to = destination().as<float>();
         return [=] { naive(size.rows, size.dim, to); };
       }});
}

/// x ← x + p, which reads and writes x: the rows themselves are the smaller part.
void add_to_inputs(Size size, Index threads) {
  add({.name = "add_sinusoidal/concatenated/" + size.name(),
       .threads = threads,
       .bars = {{limit(size.bytes(), threads)}},
       .prepare = [=]() -> std::function<void()> {
         fill_with_numbers(source(), size.bytes());
         const auto encoding = sinusoids("concatenated", size);
         float* const x = source().as<float>();
         return [=] { add<float>(encoding->input(), {}, dense(x, 1, size.rows, size.dim), executor(threads)); };
       }});
}

}  // namespace

void add_input_cases() {
  for (const Size size : {Size{4'096, 1'024}, Size{131'072, 128}}) {
    for (const Index threads : {1, 2}) {
      add_sinusoidal("concatenated", size, threads);
      add_sinusoidal("interleaved", size, threads);
      add_to_inputs(size, threads);
    }
    add_naive(size);
  }
}

}  // namespace bearing::bench
