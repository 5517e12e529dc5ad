#pragma once

#include <bearing/encodings/t5.hpp>
#include <cmath>
#include <vector>

#include "buffers.hpp"

// What the cases of scores share with their peers: 16 heads, 2,048 tokens, T5's own buckets.

namespace bearing::bench {

inline constexpr Index score_heads = 16, score_length = 2048;
inline constexpr std::size_t score_bytes = std::size_t{score_heads * score_length * score_length} * sizeof(float);
inline constexpr const char* score_size = "/f32/16x2048x2048";
inline constexpr T5 t5_spec{.direction = T5Direction::bidirectional};

inline View<float, 3> score_matrix(const HugeBuffer& buffer, std::size_t first = 0) {
  return dense(buffer.as<float>() + first / sizeof(float), score_heads, score_length, score_length);
}

/// Numbers between −1 and 1, and room for their gradient.
struct Numbers {
  explicit Numbers(Index n) : value(static_cast<std::size_t>(n)), grad(value.size()) {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<float>(std::sin(static_cast<double>(i + 1)));
  }
  template <class... I>
  Param<float, sizeof...(I)> param(I... extent) {
    return {dense<const float>(value.data(), extent...), dense(grad.data(), extent...)};
  }
  std::vector<float> value, grad;
};

struct T5Case {
  Numbers table{t5_spec.buckets * score_heads};
  T5Bias<float> bias{t5_spec, table.param(t5_spec.buckets, score_heads)};
};

}  // namespace bearing::bench
