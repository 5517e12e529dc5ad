#pragma once

#include <bearing/scores.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "buffers.hpp"
#include "described.hpp"

// What the cases of scores share with their peers: 16 heads, 2,048 tokens.

namespace bearing::bench {

inline constexpr Index score_heads = 16, score_length = 2048;
inline constexpr std::size_t score_bytes = std::size_t{score_heads * score_length * score_length} * sizeof(float);
inline constexpr const char* score_size = "/f32/16x2048x2048";

inline View<float, 3> score_matrix(const HugeBuffer& buffer, std::size_t first = 0) {
  return dense(buffer.as<float>() + first / sizeof(float), score_heads, score_length, score_length);
}

/// Numbers between −1 and 1, and room for their gradient.
struct Numbers {
  explicit Numbers(Index n) : value(static_cast<std::size_t>(n)), grad(value.size()) {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<float>(std::sin(static_cast<double>(i + 1)));
  }
  std::vector<float> value, grad;
};

/// An encoding of these cases.
inline std::shared_ptr<Described> score_encoding(const std::string& name) {
  const Sizes sizes{.batch = 1,
                    .heads = score_heads,
                    .kv_heads = score_heads,
                    .q_len = score_length,
                    .k_len = score_length,
                    .dim = 64,
                    .value_dim = 64};
  return std::make_shared<Described>(name, sizes);
}

/// The row of the only table of an encoding by distance for each pair of tokens, as frameworks keep it: what the
/// encoding adds if a row's number is its index.
inline std::vector<Index> rows_of_pairs(const std::string& name, Index length) {
  const std::shared_ptr<Described> probe = score_encoding(name);
  Described::Parameter& table = probe->parameters().at(0);
  const std::size_t per_row = static_cast<std::size_t>(table.shape[1]);
  for (std::size_t n = 0; n < table.value.size(); ++n) table.value[n] = static_cast<float>(n / per_row);
  std::vector<float> rows(static_cast<std::size_t>(score_heads * length * length));
  add_scores(probe->terms(), {}, bhtd(rows.data(), 1, score_heads, length, length));
  const auto end = rows.begin() + static_cast<std::ptrdiff_t>(length * length);
  return {rows.begin(), end};
}

}  // namespace bearing::bench
