#include <gtest/gtest.h>
#include <atomic>
#include <bearing/attention.hpp>
#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/t5.hpp>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "attention/amx/amx_kernels.hpp"
#include "support/workers.hpp"

// Memory beyond inputs and outputs at 32,768 tokens: the peak of what is allocated while a call runs. A program of its
// own, for it counts the global operator new.

namespace {

std::atomic<long> living{0}, peak{0};

/// Blocks have their size before them, which takes as many bytes as keep them aligned.
std::size_t header(std::size_t alignment) { return alignment < 64 ? 64 : alignment; }

void* allocate(std::size_t size, std::size_t alignment) {
  const std::size_t first = header(alignment), whole = (size + 2 * first - 1) / first * first;
  char* block = static_cast<char*>(std::aligned_alloc(first, whole));
  if (block == nullptr) throw std::bad_alloc();
  std::memcpy(block + first - sizeof size, &size, sizeof size);
  const long now = living += static_cast<long>(size);
  for (long most = peak; now > most && !peak.compare_exchange_weak(most, now);) continue;
  return block + first;
}

void release(void* memory, std::size_t alignment) {
  if (memory == nullptr) return;
  std::size_t size = 0;
  std::memcpy(&size, static_cast<char*>(memory) - sizeof size, sizeof size);
  living -= static_cast<long>(size);
  std::free(static_cast<char*>(memory) - header(alignment));
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, 1); }
void* operator new[](std::size_t size) { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) { return allocate(size, std::size_t(alignment)); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return allocate(size, std::size_t(alignment)); }
void operator delete(void* memory) noexcept { release(memory, 1); }
void operator delete[](void* memory) noexcept { release(memory, 1); }
void operator delete(void* memory, std::size_t) noexcept { release(memory, 1); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory, 1); }
void operator delete(void* memory, std::align_val_t alignment) noexcept { release(memory, std::size_t(alignment)); }
void operator delete[](void* memory, std::align_val_t alignment) noexcept { release(memory, std::size_t(alignment)); }
void operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
  release(memory, std::size_t(alignment));
}
void operator delete[](void* memory, std::size_t, std::align_val_t alignment) noexcept {
  release(memory, std::size_t(alignment));
}

namespace bearing {
namespace {

constexpr Index k_len = 32'768, dim = 64;

/// What is promised of each worker: 2·k_len·d·4 bytes, 6 in the place of 4 for floats on matrix tiles, and 1 MiB.
template <class T>
long allowed(long workers) {
  const bool in_pieces = sizeof(T) == sizeof(float) && attend::amx::kernels() != nullptr;
  const long number = in_pieces ? 6 : 4;
  return workers * (2 * k_len * dim * number + (1 << 20));
}

/// Peak of allocated bytes while body() runs, beyond what there was.
template <class Body>
long peak_of(const Body& body) {
  const long before = living;
  peak = before;
  body();
  return peak - before;
}

template <class T>
struct Tensors {
  using A = Compute<T>;
  Index q_len;
  std::vector<T> q, k, v, out, d_q, d_k, d_v;
  std::vector<A> lse;

  explicit Tensors(Index queries)
      : q_len(queries),
        q(size(queries)),
        k(size(k_len)),
        v(size(k_len)),
        out(size(queries)),
        d_q(size(queries)),
        d_k(size(k_len)),
        d_v(size(k_len)),
        lse(static_cast<std::size_t>(queries)) {
    for (std::size_t x = 0; x < k.size(); ++x) k[x] = v[x] = T(static_cast<float>(x % 17) / 16 - 0.5f);
    for (std::size_t x = 0; x < q.size(); ++x) q[x] = T(static_cast<float>(x % 13) / 16 - 0.5f);
  }
  static std::size_t size(Index rows) { return static_cast<std::size_t>(rows * dim); }
  AttentionInputs<T> inputs() const {
    return {rows(q, q_len), rows(k, k_len), rows(v, k_len), Positions(k_len - q_len)};
  }
  static View<const T, 4> rows(const std::vector<T>& x, Index time) { return bhtd(x.data(), 1, 1, time, dim); }
  static View<T, 4> rows(std::vector<T>& x, Index time) { return bhtd(x.data(), 1, 1, time, dim); }
};

/// Forward, and backward, on one and on two threads. `window`: keys that a query sees; the whole matrix of scores
/// would be 4 GiB.
template <class T>
void expect_linear_memory(const char* name, Index q_len, Index window, const TermList<Compute<T>>& terms) {
  using A = Compute<T>;
  Tensors<T> x(q_len);
  const AttentionOptions<A> options{.mask = Mask::causal, .window = {.before = window - 1, .after = -1}};
  const auto lse = dense(x.lse.data(), 1, 1, q_len);
  for (const long workers : {1, 2}) {
    test::Workers threads(workers);
    const Executor on = workers == 1 ? Executor{} : Executor(threads);
    const long forward = peak_of([&] { attention(x.inputs(), x.rows(x.out, q_len), lse, terms, options, on); });
    EXPECT_LE(forward, allowed<T>(workers)) << name << ", forward, " << workers << " workers";
    EXPECT_GT(forward, 0);
    const long backward = peak_of([&] {
      attention_backward(x.inputs(), {x.rows(x.out, q_len), lse, x.rows(x.q, q_len)},
                         {x.rows(x.d_q, q_len), x.rows(x.d_k, k_len), x.rows(x.d_v, k_len)}, terms, options, on);
    });
    EXPECT_LE(backward, allowed<T>(workers)) << name << ", backward, " << workers << " workers";
  }
  EXPECT_NE(x.lse.back(), 0);
}

/// Every encoding with all queries in a window, and with the last 256 queries over all keys.
template <class T>
void expect_linear_memory(const char* name, const TermList<Compute<T>>& terms) {
  expect_linear_memory<T>(name, k_len, 64, terms);
  expect_linear_memory<T>(name, 256, 0, terms);
}

TEST(AttentionMemory, WithoutAnEncoding) {
  expect_linear_memory<float>("float", {});
  expect_linear_memory<Bfloat16>("bf16", {});
}

TEST(AttentionMemory, Alibi) {
  std::vector<float> slope = {0.01f}, d_slope(1);
  const AlibiBias<float> alibi(Param<float, 1>{dense<const float>(slope.data(), 1), dense(d_slope.data(), 1)});
  expect_linear_memory<float>("alibi", with(alibi));
  EXPECT_NE(d_slope[0], 0);
}

TEST(AttentionMemory, T5) {
  std::vector<float> table(32, 0.5f), d_table(32);
  const T5Bias<float> t5({.direction = T5Direction::causal},
                         {dense<const float>(table.data(), 32, 1), dense(d_table.data(), 32, 1)});
  expect_linear_memory<float>("t5", with(t5));
}

TEST(AttentionMemory, Shaw) {
  std::vector<float> key(33 * dim, 0.1f), d_key(key.size()), value(key), d_value(key.size());
  const auto table = [](std::vector<float>& x) { return dense(x.data(), 33, dim); };
  const ShawTerm<float> shaw({16}, Param<float, 2>{table(key), table(d_key)},
                             Param<float, 2>{table(value), table(d_value)});
  expect_linear_memory<float>("shaw", with(shaw));
}

TEST(AttentionMemory, Rope) {
  const RopeTable<float> table(Rope{.head_dim = dim, .pairing = Pairing::half}, k_len,
                               {.memory = TableMemory::compact});
  const RotaryRows<float> rope(table);
  expect_linear_memory<float>("rope", with(rope));
  expect_linear_memory<Bfloat16>("rope, bf16", with(rope));
}

/// Looks at rows of queries and keys.
struct Content {
  using Arithmetic = float;

  void add_scores(const Tile<float>& tile, float* s) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j)
        s[i * tile.stride + j] += tile.q[i * tile.q_stride] * tile.k[j * tile.k_stride];
    }
  }
  void add_score_grads(const Tile<float>&, const float*, const TileGrads<float>&) const {}
};

TEST(AttentionMemory, AnEncodingThatLooksAtRows) {
  const Content content;
  expect_linear_memory<float>("content", with(content));
}

/// The same numbers as a quarter as many rows, four times as wide.
TEST(AttentionMemory, WideHeads) {
  constexpr Index wide = 4 * dim, keys = k_len / 4, queries = 400;
  Tensors<float> x(4 * queries);
  const RopeTable<float> table(Rope{.head_dim = wide, .pairing = Pairing::half}, keys,
                               {.memory = TableMemory::compact});
  const RotaryRows<float> rope(table);
  const auto rows = [](const std::vector<float>& of, Index n) { return bhtd(of.data(), 1, 1, n, wide); };
  const AttentionInputs<float> in{rows(x.q, queries), rows(x.k, keys), rows(x.v, keys), Positions(keys - queries)};
  const Content content;
  for (const TermList<float>& terms : {with(rope), with(content), with(rope, content)}) {
    const long most = peak_of(
        [&] { attention<float>(in, bhtd(x.out.data(), 1, 1, queries, wide), {}, terms, {.mask = Mask::causal}); });
    EXPECT_LE(most, allowed<float>(1));
  }
}

TEST(AttentionMemory, ACausalCallOverAllOfThem) {
  Tensors<float> x(k_len);
  const AlibiBias<float> alibi(Alibi::published(1));
  const long most = peak_of([&] {
    attention(x.inputs(), x.rows(x.out, k_len), dense(x.lse.data(), 1, 1, k_len), with(alibi), {.mask = Mask::causal});
  });
  EXPECT_LE(most, allowed<float>(1));
}

}  // namespace
}  // namespace bearing
