#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "support/attention.hpp"

// Every way to say which keys a query sees, and how they go together.

namespace bearing::test {

/// Where tokens stand, for masks by position.
enum class Standing { in_order, cached, shuffled, repeated, real, zigzag };
inline constexpr Standing standings[] = {Standing::in_order, Standing::cached, Standing::shuffled,
                                         Standing::repeated, Standing::real,   Standing::zigzag};

inline constexpr Window windows[] = {{}, {.before = 4, .after = -1}, {.before = 6, .after = 2}, {-1, 1}, {0, 0}};

/// The memory of all masks of one shape.
class Masks {
 public:
  Masks(Index batch, Index heads, Index q_len, Index k_len, std::uint64_t seed = 23)
      : c_{.batch = batch, .heads = heads, .kv_heads = heads, .q_len = q_len, .k_len = k_len} {
    Random random(seed);
    const auto some = [&](std::unique_ptr<bool[]>& to, Index n) {  // three of four
      to = std::make_unique<bool[]>(static_cast<std::size_t>(n));
      for (Index x = 0; x < n; ++x) to[static_cast<std::size_t>(x)] = random.integer(0, 3) > 0;
    };
    some(key_mask_, batch * k_len);
    some(visible_, batch * heads * q_len * k_len);
    // The first sequence has keys that all exist, the second one a part of them, the third none, and so on.
    for (Index b = 0; b < batch; ++b) k_lengths_.push_back(b % 3 == 0 ? k_len : b % 3 == 1 ? (2 * k_len + 2) / 3 : 0);
    // Sequences of uneven lengths, one of them without queries, one without keys.
    q_starts_ = {0, q_len / 3, q_len / 3, q_len / 2, q_len};
    k_starts_ = {0, k_len / 4, k_len / 2, k_len / 2, k_len};
    for (const Standing standing : standings) {
      q_positions_.push_back(place(standing, random, q_len, k_len));
      k_positions_.push_back(place(standing, random, k_len, k_len));
    }
  }

  /// A case of a mask, a window, tokens' places and those of the others whose bit is set: packing, k_lengths, key_mask,
  /// visible.
  AttentionCase of(Mask mask, Window window, Standing standing, unsigned bits) const {
    AttentionCase c = c_;
    c.options.mask = mask, c.options.window = window;
    if (bits & 1) c.options.q_starts = starts(q_starts_), c.options.k_starts = starts(k_starts_);
    if (bits & 2) c.options.k_lengths = dense(k_lengths_.data(), c.batch);
    if (bits & 4) c.options.key_mask = dense<const bool>(key_mask_.get(), c.batch, c.k_len);
    if (bits & 8) c.options.visible = dense<const bool>(visible_.get(), c.batch, c.heads, c.q_len, c.k_len);
    if (standing == Standing::in_order) return c;
    if (standing == Standing::cached) {
      c.q_first = std::max<Index>(0, c.k_len - c.q_len);
      return c;
    }
    const auto n = static_cast<std::size_t>(standing);
    c.q_positions = Positions(dense(q_positions_[n].data(), c.batch, c.q_len));
    c.k_positions = Positions(dense(k_positions_[n].data(), c.batch, c.k_len));
    return c;
  }

  /// body(case, its description) for all of them.
  template <class Body>
  void each(const Body& body) const {
    for (const Mask mask : {Mask::none, Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right}) {
      for (const Window& window : windows) {
        for (const Standing standing : standings) {
          for (unsigned bits = 0; bits < 16; ++bits) {
            body(of(mask, window, standing, bits),
                 "standing " + std::to_string(static_cast<int>(standing)) + ", others " + std::to_string(bits));
          }
        }
      }
    }
  }

 private:
  static View<const Index, 1> starts(const std::vector<Index>& of) {
    return dense(of.data(), static_cast<Index>(of.size()));
  }
  /// [batch, length]
  std::vector<double> place(Standing standing, Random& random, Index length, Index k_len) const {
    std::vector<double> at;
    for (Index b = 0; b < c_.batch; ++b) {
      for (Index t = 0; t < length; ++t) {
        double p = static_cast<double>(t);
        if (standing == Standing::shuffled) p = static_cast<double>(random.integer(-3, k_len));
        if (standing == Standing::repeated) p = static_cast<double>(t / 3);
        if (standing == Standing::real) p = random.uniform(-1, static_cast<double>(k_len));
        // A shard of a context split in four: one piece from the front and one from the back.
        if (standing == Standing::zigzag) p = static_cast<double>(t < length / 2 ? b + t : k_len + b + t);
        at.push_back(p);
      }
    }
    return at;
  }

  AttentionCase c_;
  std::unique_ptr<bool[]> key_mask_, visible_;
  std::vector<Index> k_lengths_, q_starts_, k_starts_;
  std::vector<std::vector<double>> q_positions_, k_positions_;
};

}  // namespace bearing::test
