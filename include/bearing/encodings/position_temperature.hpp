#pragma once

#include <bearing/export.hpp>
#include <bearing/param_block.hpp>
#include <bearing/term.hpp>
#include <string>

// Attention temperature by position: a query at m is multiplied by a factor that grows slowly with its place
// n = m + first, so that softmax stays sharp over more and more keys (Nakanishi 2025, arXiv 2501.19399),
//
//     stepped   q_i ← q_i · (1 + beta · ln(1 + ⌊n / length⌋))          Llama 4, Ministral 3, Mistral 4
//     clamped   q_i ← q_i · (1 + beta · ln(max(1, n / length)))        Inkling; Qwen's log-n with beta = 1 / ln length
//     power     q_i ← q_i · (1 + n / length)^beta                      Beam
//     learned   q_i ← q_i · (scale_h · ln(max(1, n)) + bias_h)         Mistral Large 4; scalable softmax
//
// Keys stay as they are. It does not tell the order of tokens: models use it with RoPE in every layer, or alone in the
// layers without RoPE.

namespace bearing {

enum class TemperatureForm { stepped, clamped, power, learned };

struct PositionTemperature {
  TemperatureForm form = TemperatureForm::stepped;
  double beta = 0.1;      ///< how much the factor grows; not of the learned form
  double length = 8192;   ///< tokens per step, or after which the factor grows; not of the learned form
  Required<Index> first;  ///< what position 0 counts as: 0 in Ministral 3 and Mistral 4, 1 in the others

  /// attn_scale and floor_scale of a Llama 4 config.
  static PositionTemperature llama4(double attn_scale = 0.1, double floor_scale = 8192) {
    return {.beta = attn_scale, .length = floor_scale, .first = 1};
  }
  /// original_max_position_embeddings and llama_4_scaling_beta of a Ministral 3 or Mistral 4 config's rope_parameters.
  static PositionTemperature ministral3(double original_length, double beta = 0.1) {
    return {.beta = beta, .length = original_length, .first = 0};
  }
  /// log_scaling_n_floor and log_scaling_alpha of an Inkling config.
  static PositionTemperature inkling(double n_floor, double alpha = 0.1) {
    return {.form = TemperatureForm::clamped, .beta = alpha, .length = n_floor, .first = 1};
  }
  /// seq_length of a Qwen (1) config with use_logn_attn: ln n / ln seq_length where n > seq_length, else 1. Throws
  /// RangeError unless seq_length is finite and above 1.
  BEARING_EXPORT static PositionTemperature qwen(double seq_length);
  /// Beam's layers without RoPE: (1 + (m + 1) / 2048)^0.1.
  static PositionTemperature beam(double length = 2048, double exponent = 0.1) {
    return {.form = TemperatureForm::power, .beta = exponent, .length = length, .first = 1};
  }
  /// Mistral Large 4, whose scale and bias are in its weights.
  static PositionTemperature mistral_large4() { return {.form = TemperatureForm::learned, .first = 1}; }
  bool operator==(const PositionTemperature&) const = default;

  /// The factor of a query at position m ≥ −first; RangeError for others, and for the learned form, in which each head
  /// has its own.
  BEARING_EXPORT double factor(double m) const;
  /// The factor at position p, in words: "1 + 0.1·ln(1 + floor(p/8192))".
  BEARING_EXPORT std::string formula() const;
};

/// The temperature as an encoding of rows: turns queries, copies keys. Needs positions that count tokens from 0 on
/// (RangeError for smaller ones). The learned form needs scale and bias [sets], of which head h uses number h / group,
/// as in RopeMixedRows; the others have none. Throws RangeError for a beta that is not finite, a length that is not
/// above 0 or a first beyond ±2^31, ShapeError for parameters that do not fit; a call throws RangeError for parameters
/// that are not finite.
template <class A>
class BEARING_EXPORT TemperatureRows {
 public:
  using Arithmetic = A;

  explicit TemperatureRows(const PositionTemperature& temperature, Param<A, 1> scale = {}, Param<A, 1> bias = {},
                           Index group = 1);

  void check(const char* function, const Problem& problem) const;
  void turn(const RowTile& tile, const A* x, A* y) const;
  /// d_x = factor · d_y; d_scale = Σ ln(max(1, n)) · (x·d_y), d_bias = Σ x·d_y.
  void turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const;
  auto grad_block(Index, Index head) const {
    return ParamBlock(slice(scale_.grad, 0, head / group_), slice(bias_.grad, 0, head / group_));
  }
  void borrows(MemoryList& to) const {
    to.param("PositionTemperature.scale", scale_);
    to.param("PositionTemperature.bias", bias_);
  }

 private:
  bool learned() const { return temperature_.form == TemperatureForm::learned; }
  double factor(const RowTile& tile, Index row) const;
  double logarithm(double m) const;  ///< of the learned form

  PositionTemperature temperature_;
  Param<A, 1> scale_, bias_;
  Index group_;
};

}  // namespace bearing
