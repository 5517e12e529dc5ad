#pragma once

#include <memory>
#include <vector>

#include "support/attention.hpp"
#include "support/attention_encodings.hpp"
#include "support/ulp.hpp"

// What nobody sees: ways to hide keys and queries, and what may lie there.

namespace bearing::test {

/// Masks of a case, by what they hide.
class Hiding {
 public:
  Hiding(Index batch, Index heads, Index q_len, Index k_len)
      : key_mask_(std::make_unique<bool[]>(size(batch * k_len))),
        visible_(std::make_unique<bool[]>(size(batch * heads * q_len * k_len))) {
    lengths_ = {k_len - 6, k_len - 3};
    // Keys at both ends and two in the middle are hidden; `visible` lets nobody see key 5 and leaves query 3 nothing.
    for (Index j = 0; j < batch * k_len; ++j) {
      const Index at = j % k_len;
      key_mask_[size(j)] = at > 1 && at < k_len - 4 && at != k_len / 2 && at != k_len / 2 + 3;
    }
    Random random(17);
    for (Index x = 0; x < batch * heads * q_len * k_len; ++x) {
      const Index j = x % k_len, i = x / k_len % q_len;
      visible_[size(x)] = i != 3 && j != 5 && j != k_len - 2 && random.integer(0, 3) > 0;
    }
    // The second of three packed sequences has keys and no queries, the last one queries and no keys.
    q_starts_ = {0, q_len / 2, q_len / 2, q_len - 2, q_len}, k_starts_ = {0, k_len / 3, k_len / 2, k_len, k_len};
    for (Index i = 0; i < q_len; ++i) q_far_.push_back(i < q_len / 2 ? i : k_len + i - q_len);
  }

  /// body(way, case) for each way to hide something that an encoding serves.
  template <class Body>
  void each(const AttentionCase& plain, Serves serves, const Body& body) const {
    const auto with = [&](const char* way, const auto& change) {
      AttentionCase c = plain;
      change(c);
      body(way, c);
    };
    with("k_lengths", [&](AttentionCase& c) { c.options.k_lengths = dense(lengths_.data(), c.batch); });
    with("key_mask",
         [&](AttentionCase& c) { c.options.key_mask = dense<const bool>(key_mask_.get(), c.batch, c.k_len); });
    with("visible", [&](AttentionCase& c) {
      c.options.visible = dense<const bool>(visible_.get(), c.batch, c.heads, c.q_len, c.k_len);
      c.options.sinks.value = dense(sinks_, c.heads);
    });
    with("packed", [&](AttentionCase& c) {
      c.options.q_starts = dense(q_starts_.data(), 5), c.options.k_starts = dense(k_starts_.data(), 5);
    });
    with("a tail of a mask by index", [&](AttentionCase& c) { c.options.mask = Mask::causal_top_left; });
    if (serves == Serves::grid || serves == Serves::three_axes) return;
    with("a causal tail", [&](AttentionCase& c) { c.options.mask = Mask::causal, c.q_first = c.k_len - c.q_len - 5; });
    with("a window between tokens that are far apart", [&](AttentionCase& c) {
      c.options.mask = Mask::causal, c.options.window.before = 3;
      c.q_positions = Positions(dense(q_far_.data(), c.q_len));
    });
    if (serves == Serves::rising) return;
    with("queries before all keys",
         [&](AttentionCase& c) { c.options.mask = Mask::causal, c.q_first = 0, c.k_first = 4; });
  }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  static constexpr double sinks_[] = {0.5, -0.25, 0, 1};
  std::vector<Index> lengths_, q_starts_, k_starts_, q_far_;
  std::unique_ptr<bool[]> key_mask_, visible_;
};

/// Writes a number wherever nobody looks; returns how many rows that were.
template <class T>
Index poison(AttentionData<T>& data, T number) {
  const AttentionCase& c = data.the_case();
  const auto sees = [&](Index b, Index h, Index i, Index j) {
    return reference::visible(c.options, data.q_positions(), data.k_positions(), c.q_len, c.k_len, b, h, i, j);
  };
  const auto fill = [&](View<T, 4> x, Index b, Index h, Index t) {
    for (Index d = 0; d < x.shape[3]; ++d) x(b, h, t, d) = number;
  };
  const Index group = c.heads / c.kv_heads;
  Index rows = 0;
  for (Index b = 0; b < c.batch; ++b) {
    for (Index j = 0; j < c.kv_heads * c.k_len; ++j) {
      bool seen = false;
      for (Index x = 0; x < group * c.q_len; ++x) {
        seen = seen || sees(b, j / c.k_len * group + x / c.q_len, x % c.q_len, j % c.k_len);
      }
      if (seen) continue;
      fill(data.k(), b, j / c.k_len, j % c.k_len), fill(data.v(), b, j / c.k_len, j % c.k_len);
      ++rows;
    }
    for (Index i = 0; i < c.heads * c.q_len; ++i) {
      bool seeing = false;
      for (Index j = 0; j < c.k_len; ++j) seeing = seeing || sees(b, i / c.q_len, i % c.q_len, j);
      if (seeing) continue;
      fill(data.q(), b, i / c.q_len, i % c.q_len), fill(data.d_out(), b, i / c.q_len, i % c.q_len);
      ++rows;
    }
  }
  return rows;
}

template <class T>
std::vector<T> garbage() {
  const auto number = [](double x) { return from_double<T>(x); };
  const double most = std::is_same_v<T, double> ? std::numeric_limits<double>::max() : 3e38;
  return {number(std::numeric_limits<double>::quiet_NaN()), number(-std::numeric_limits<double>::infinity()),
          number(most)};
}

}  // namespace bearing::test
