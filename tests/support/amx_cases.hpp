#pragma once

#include <bearing/encodings/rotary_rows.hpp>
#include <vector>

#include "attention/amx/amx_kernels.hpp"
#include "support/attention.hpp"

// Calls for matrix tiles, forward and backward.

namespace bearing::test {

/// For its lifetime attention takes these kernels, or none.
class Forced {
 public:
  explicit Forced(const attend::amx::Kernels* kernels) { attend::amx::force_kernels(kernels); }
  ~Forced() { attend::amx::force_kernels(std::nullopt); }
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;
};

inline AttentionCase tiles_case(Index q_len, Index k_len) {
  return {.q_len = q_len, .k_len = k_len, .dim = 32, .value_dim = 64};
}

/// Rotations of the cases' queries and keys, in both arithmetics.
class TilesRope {
 public:
  const RotaryRows<double>& exact() const { return rows64_; }
  const RotaryRows<float>& rows() const { return rows32_; }

 private:
  RopeTable<double> table64_{rope(), 256};
  RopeTable<float> table32_{rope(), 256};
  RotaryRows<double> rows64_{table64_};
  RotaryRows<float> rows32_{table32_};

  static Rope rope() { return {.head_dim = 32, .pairing = Pairing::half}; }
};

/// body(case) for masks and windows of queries that are the last of 150 keys, for padding, and for packed sequences.
template <class Body>
void each_tiles_mask(Index q_len, const Body& body) {
  AttentionCase c = tiles_case(q_len, 150);
  c.q_first = 150 - q_len;
  for (const Mask mask : {Mask::none, Mask::causal, Mask::causal_top_left, Mask::causal_bottom_right}) {
    c.options = {.mask = mask};
    body(c);
    c.options.window = {.before = 40, .after = 0};
    body(c);
  }
  c.batch = 2;
  const std::vector<Index> lengths = {130, 33};
  c.options = {.mask = Mask::causal, .k_lengths = dense(lengths.data(), 2)};
  body(c);
  const std::vector<Index> q_starts = {0, 20, q_len}, k_starts = {0, 35, 150};
  c.options = {
      .mask = Mask::causal_top_left, .q_starts = dense(q_starts.data(), 3), .k_starts = dense(k_starts.data(), 3)};
  body(c);
}

/// body(case) for layouts of two sequences and four heads, with a scale and with sinks.
template <class Body>
void each_tiles_layout(const Body& body) {
  AttentionCase c = tiles_case(40, 70);
  c.batch = 2, c.heads = 4;
  const std::vector<double> sinks = {0.5, -1, 2, -std::numeric_limits<double>::infinity()};
  c.options = {.mask = Mask::causal, .scale = 0.3};
  c.options.sinks = {dense(sinks.data(), 4)};
  for (const Layout layout : writable_layouts) {
    c.inputs = c.outputs = layout;
    body(c);
  }
  c.inputs = Layout::one_head;
  body(c);
}

}  // namespace bearing::test
