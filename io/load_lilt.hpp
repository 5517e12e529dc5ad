#pragma once

#include <bearing/safetensors.hpp>
#include <string>
#include <vector>

// LiLT's boxes: six narrow tables side by side, which one projection joins, and a table by the index in the text. What
// comes out is a sum of seven rows, so each is a table of its own once it is projected.

namespace bearing::load {

struct LiltTable {
  std::string tensor;  ///< the table that is projected
  std::vector<Index> shape;
  std::vector<float> numbers;  ///< [rows, width of the boxes' stream]
};

/// The table of an input of the model: 1 to 6 for the left, upper, right and lower edge, height and width, and 7 for
/// the index, which takes the projection's bias. Throws ConfigError as MatrixReader does.
LiltTable lilt_table(Weights& weights, const std::vector<std::string>& names, int place);

}  // namespace bearing::load
