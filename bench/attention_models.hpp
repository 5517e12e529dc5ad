#pragma once

#include <algorithm>
#include <bearing/attention.hpp>
#include <memory>
#include <stdexcept>
#include <string>

#include "buffers.hpp"
#include "described.hpp"
#include "harness.hpp"
#include "models.hpp"

// What the cases of attention share with their peers: tensors in the shared memory, encodings with
// their parameters, and how much arithmetic each of them is.

namespace bearing::bench {

struct AttentionShape {
  Index heads = 8, kv_heads = 8;
  Index q_len = 4096, k_len = 4096;
  Index dim = 64;  ///< of values too
  Index batch = 1;

  Index q_size() const { return batch * heads * q_len * dim; }
  Index k_size() const { return batch * kv_heads * k_len * dim; }
};

/// 32 heads of 128 that share the keys of 8: a prompt, and steps of 1, 16 and 64 sequences.
inline AttentionShape grouped_prefill(Index length) {
  return {.heads = 32, .kv_heads = 8, .q_len = length, .k_len = length, .dim = 128};
}
inline constexpr AttentionShape grouped_steps[] = {
    {.heads = 32, .kv_heads = 8, .q_len = 1, .k_len = 8192, .dim = 128},
    {.heads = 32, .kv_heads = 8, .q_len = 1, .k_len = 2048, .dim = 128, .batch = 16},
    {.heads = 32, .kv_heads = 8, .q_len = 1, .k_len = 512, .dim = 128, .batch = 64}};

inline AttentionShape self_attention(Index length, Index dim) { return {.q_len = length, .k_len = length, .dim = dim}; }

/// "f32/8x4096x64", "f32/32:8x4096x64" where heads share keys, "f32/8x1:32768x128" where lengths differ,
/// "f32/16_sequences/8x4096x64".
template <class T>
std::string attention_size(const AttentionShape& s) {
  const auto pair = [](Index a, Index b) {
    return a == b ? std::to_string(a) : std::to_string(a) + ":" + std::to_string(b);
  };
  const std::string sequences = s.batch == 1 ? "" : std::to_string(s.batch) + "_sequences/";
  return std::string(dtype_name<T>()) + "/" + sequences + pair(s.heads, s.kv_heads) + "x" + pair(s.q_len, s.k_len) +
         "x" + std::to_string(s.dim);
}

/// "causal/f32/8x4096x64", "alibi/…" where all keys are seen, "causal_alibi/…".
template <class T>
std::string attention_name(const std::string& mask, const std::string& encoding, const AttentionShape& shape) {
  if (encoding == "none") return mask + "/" + attention_size<T>(shape);
  const std::string home = home_of(encoding), what = mask == "full" ? home : mask + "_" + home;
  return what + "/" + attention_size<T>(shape);
}

/// Numbers with mean 0 and variance 1, about normal, the same ones for the same first.
template <class T>
void fill_normal(T* x, Index n, std::uint32_t first) {
  for (Index i = 0; i < n; ++i) {
    std::uint32_t bits = (static_cast<std::uint32_t>(i) + first) * 2654435761u;
    bits = (bits ^ (bits >> 15)) * 2246822519u;
    bits = (bits ^ (bits >> 13)) * 3266489917u;
    bits ^= bits >> 16;
    const std::uint32_t sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
    x[i] = static_cast<T>((static_cast<float>(sum) - 510.0f) / 147.8f);
  }
}

/// Queries, keys, values and the result's gradient lie in source(), in this order; the rest in destination(): the
/// result, then the gradients of queries, keys and values, then the sums.
template <class T>
struct AttentionMemory {
  AttentionShape shape;

  explicit AttentionMemory(const AttentionShape& s) : shape(s) {
    const Index q = s.q_size(), k = s.k_size();
    fill_normal(source().as<T>(), q, 1);
    fill_normal(source().as<T>() + q, 2 * k, 77'777'777);
    fill_normal(source().as<T>() + q + 2 * k, q, 555'555'555);
  }

  AttentionInputs<T> inputs() const { return {queries(0), keys(q_size()), keys(q_size() + k_size())}; }
  View<const T, 4> d_out() const { return queries(q_size() + 2 * k_size()); }
  View<T, 4> out() const { return rows(destination(), 0, shape.heads, shape.q_len); }
  AttentionGrads<T> grads() const {
    const Index first = q_size();
    return {rows(destination(), first, shape.heads, shape.q_len),
            rows(destination(), first + q_size(), shape.kv_heads, shape.k_len),
            rows(destination(), first + q_size() + k_size(), shape.kv_heads, shape.k_len)};
  }
  View<Compute<T>, 3> lse() const {
    const auto bytes = static_cast<std::size_t>(2 * q_size() + 2 * k_size()) * sizeof(T);
    auto* const first = reinterpret_cast<Compute<T>*>(destination().as<char>() + bytes);
    return dense(first, shape.batch, shape.heads, shape.q_len);
  }

 private:
  Index q_size() const { return shape.q_size(); }
  Index k_size() const { return shape.k_size(); }
  View<T, 4> rows(const HugeBuffer& buffer, Index first, Index rows_heads, Index length) const {
    return bhtd(buffer.as<T>() + first, shape.batch, rows_heads, length, shape.dim);
  }
  View<const T, 4> queries(Index first) const { return rows(source(), first, shape.heads, shape.q_len); }
  View<const T, 4> keys(Index first) const { return rows(source(), first, shape.kv_heads, shape.k_len); }
};

/// The encodings of a call, with what they refer to.
struct Encoded {
  std::shared_ptr<const void> kept = nullptr;
  TermList<float> terms = {};
};

/// name: none, or one of the registry's. Tables have room for their gradients.
Encoded encode(const std::string& name, const AttentionShape& shape);

/// How many products of two vectors the encoding itself is, for one head, by its form: of a query, a key or a row's
/// weights by distance with each row of a table that it meets, counted once, however often tiles repeat it, or of the
/// vectors of two positions.
double own_products(const std::string& name, const AttentionShape& shape);

/// What is visible, by the name of a case: full, causal, or window (causal, 512 keys).
template <class A>
AttentionOptions<A> visible_keys(const std::string& name) {
  if (name == "full") return {.mask = Mask::none};
  if (name == "causal") return {.mask = Mask::causal};
  if (name == "window") return {.mask = Mask::causal, .window = {.before = 511, .after = 0}};
  throw std::invalid_argument("visible_keys: nothing is called " + name);
}
/// How many pairs of a query and a key that leaves, of one head.
double pairs_left(const std::string& name, const AttentionShape& shape);

/// Few turns of long steps, for a case of so many multiply-adds.
inline int turns_for(double fmas, Index threads) {
  constexpr double fmas_per_second = 40e9, budget = 3;
  const double turns = budget * fmas_per_second * static_cast<double>(threads) / fmas;
  return 2 * static_cast<int>(std::clamp(turns, 5.0, 21.0) / 2) + 1;
}

}  // namespace bearing::bench
