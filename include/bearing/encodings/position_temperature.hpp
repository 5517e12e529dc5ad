#pragma once

#include <bearing/export.hpp>
#include <bearing/term.hpp>
#include <string>

// Attention temperature by position: queries far into the sequence are multiplied by a factor that grows with the
// logarithm of their position, so that softmax stays sharp over more and more keys (Nakanishi 2025, arXiv 2501.19399,
// who scale by log n; models step instead of growing smoothly),
//
//     q_i ← q_i · (1 + beta · ln(1 + ⌊(m_i + first) / length⌋))
//
// Keys stay as they are. It does not tell the order of tokens: Ministral 3 and Mistral 4 use it with RoPE in every
// layer, Llama 4 alone in the layers without RoPE.

namespace bearing {

struct PositionTemperature {
  double beta = 0.1;
  double length = 8192;   ///< tokens per step: the factor is 1 for the first `length` of them
  Required<Index> first;  ///< what position 0 counts as: 1 in Llama 4, 0 in Ministral 3

  /// attn_scale and floor_scale of a Llama 4 config.
  static PositionTemperature llama4(double attn_scale = 0.1, double floor_scale = 8192) {
    return {.beta = attn_scale, .length = floor_scale, .first = 1};
  }
  /// original_max_position_embeddings and llama_4_scaling_beta of a Ministral 3 or Mistral 4 config's rope_parameters.
  static PositionTemperature ministral3(double original_length, double beta = 0.1) {
    return {.beta = beta, .length = original_length, .first = 0};
  }
  bool operator==(const PositionTemperature&) const = default;

  /// The factor of a query at position m ≥ −first; RangeError for others.
  BEARING_EXPORT double factor(double m) const;
  /// The factor at position p, in words: "1 + 0.1·ln(1 + floor(p/8192))".
  BEARING_EXPORT std::string formula() const;
};

/// The temperature as an encoding of rows: turns queries, copies keys. Needs positions that count tokens from 0 on
/// (RangeError for smaller ones). Throws RangeError for a beta that is not finite, a length that is not above 0 or a
/// first beyond ±2^31.
template <class A>
class BEARING_EXPORT TemperatureRows {
 public:
  using Arithmetic = A;

  explicit TemperatureRows(const PositionTemperature& temperature);

  void check(const char* function, const Problem& problem) const;
  void turn(const RowTile& tile, const A* x, A* y) const;
  /// d_x = factor · d_y
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;

 private:
  PositionTemperature temperature_;
};

}  // namespace bearing
