#pragma once

#include <bearing/safetensors.hpp>
#include <string>
#include <vector>

// Matrices of weights, for tables that are made from them.

namespace bearing::load {

struct Matrix {
  std::vector<double> numbers;
  Index rows = 0, columns = 0;
  std::string tensor = {};

  const double* row(Index i) const { return numbers.data() + i * columns; }
  double* row(Index i) { return numbers.data() + i * columns; }
};

class MatrixReader {
 public:
  MatrixReader(Weights& weights, const std::vector<std::string>& names) : weights_(weights), names_(names) {}

  /// [rows, columns], or [rows] as one column; an extent of 0 is the tensor's own. Throws ConfigError for a tensor that
  /// is not there or is there twice, has another shape, or holds a number that is not finite.
  Matrix read(const std::string& name, Index rows, Index columns) const;

 private:
  Weights& weights_;
  const std::vector<std::string>& names_;
};

}  // namespace bearing::load
