#pragma once

#include <algorithm>
#include <bearing/term_list.hpp>
#include <cmath>
#include <vector>

// Encodings as users write them, one of each kind, whose scores and gradients a test can say in a line.

namespace bearing::test {

/// One number per head, and its gradient.
struct Strengths {
  explicit Strengths(Index heads) : grad(static_cast<std::size_t>(heads)) {
    for (Index h = 0; h < heads; ++h) value.push_back(0.5 + 0.25 * static_cast<double>(h));
  }
  std::vector<double> value;
  mutable std::vector<double> grad;
  double operator[](Index head) const { return value[static_cast<std::size_t>(head)]; }
};

/// b = c_h · min(|n − m|, 5)
struct Near {
  using Arithmetic = double;
  Strengths c;

  static double shape(double distance) { return std::min(std::abs(distance), 5.0); }
  void bias(Index head, Index n, const double* distance, double* b) const {
    for (Index i = 0; i < n; ++i) b[i] = c[head] * shape(distance[i]);
  }
  void bias_grads(Index, Index n, const double* distance, const double* d_b, double* d_params) const {
    for (Index i = 0; i < n; ++i) d_params[0] += d_b[i] * shape(distance[i]);
  }
  Index param_size() const { return 1; }
  void collect(Index, Index head, const double* d) const { c.grad[static_cast<std::size_t>(head)] += d[0]; }
};

/// s_ij += c_h · scale · q_i·k_j · (n − m on the second axis + 1)
struct Content {
  using Arithmetic = double;
  Strengths c;

  static double place(const Tile<double>& tile, Index i, Index j) {
    return tile.k_positions[1][j] - tile.q_positions[1][i] + 1;
  }
  static double product(const Tile<double>& tile, Index i, Index j) {
    double sum = 0;
    for (Index d = 0; d < tile.dim; ++d) sum += tile.q[i * tile.q_stride + d] * tile.k[j * tile.k_stride + d];
    return tile.scale * sum;
  }
  void add_scores(const Tile<double>& tile, double* s) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        s[i * tile.stride + j] += c[tile.head] * product(tile, i, j) * place(tile, i, j);
      }
    }
  }
  void add_score_grads(const Tile<double>& tile, const double* d_s, const TileGrads<double>& grads) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        const double d = d_s[i * tile.stride + j] * place(tile, i, j);
        if (grads.params != nullptr) grads.params[0] += d * product(tile, i, j);
        const double each = d * c[tile.head] * tile.scale;
        for (Index x = 0; x < tile.dim; ++x) {
          if (grads.d_q != nullptr) grads.d_q[i * grads.d_q_stride + x] += each * tile.k[j * tile.k_stride + x];
          if (grads.d_k != nullptr) grads.d_k[j * grads.d_k_stride + x] += each * tile.q[i * tile.q_stride + x];
        }
      }
    }
  }
  Index param_size() const { return 1; }
  void collect(Index, Index head, const double* d) const { c.grad[static_cast<std::size_t>(head)] += d[0]; }
};

/// s_ij += Σ_{t ≥ j} n_t, o_i += Σ_j p_ij Σ_{t ≥ j} n_t in every feature: needs all keys at once, and scratch for sums.
struct Suffix {
  using Arithmetic = double;
  static constexpr bool whole_rows = true;
  static constexpr bool constant = true;

  Index scratch_size(Index, Index cols) const { return cols; }
  static void sums(const Tile<double>& tile) {
    double sum = 0;
    for (Index j = tile.cols - 1; j >= 0; --j) tile.scratch[j] = sum += tile.k_positions[0][j];
  }
  void add_scores(const Tile<double>& tile, double* s) const {
    sums(tile);
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) s[i * tile.stride + j] += tile.scratch[j];
    }
  }
  void add_values(const Tile<double>& tile, const double* p, Index value_dim, double* o, Index o_stride) const {
    sums(tile);
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        for (Index d = 0; d < value_dim; ++d) o[i * o_stride + d] += p[i * tile.stride + j] * tile.scratch[j];
      }
    }
  }
  void add_value_grads(const Tile<double>& tile, const double*, Index value_dim, const double* d_o, Index d_o_stride,
                       double* d_p, const TileGrads<double>&) const {
    sums(tile);
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        for (Index d = 0; d < value_dim; ++d) d_p[i * tile.stride + j] += d_o[i * d_o_stride + d] * tile.scratch[j];
      }
    }
  }
};

/// o_i += c_h Σ_j p_ij (n − m + d) in feature d
struct Carried {
  using Arithmetic = double;
  Strengths c;

  static double vector(const Tile<double>& tile, Index i, Index j, Index d) {
    return tile.k_positions[0][j] - tile.q_positions[0][i] + static_cast<double>(d);
  }
  void add_values(const Tile<double>& tile, const double* p, Index value_dim, double* o, Index o_stride) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        for (Index d = 0; d < value_dim; ++d) {
          o[i * o_stride + d] += c[tile.head] * p[i * tile.stride + j] * vector(tile, i, j, d);
        }
      }
    }
  }
  void add_value_grads(const Tile<double>& tile, const double* p, Index value_dim, const double* d_o, Index d_o_stride,
                       double* d_p, const TileGrads<double>& grads) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        double sum = 0;
        for (Index d = 0; d < value_dim; ++d) sum += d_o[i * d_o_stride + d] * vector(tile, i, j, d);
        d_p[i * tile.stride + j] += c[tile.head] * sum;
        if (grads.params != nullptr) grads.params[0] += p[i * tile.stride + j] * sum;
      }
    }
  }
  Index param_size() const { return 1; }
  void collect(Index, Index head, const double* d) const { c.grad[static_cast<std::size_t>(head)] += d[0]; }
};

/// p(i)_d = c_0 · (position + d)
struct Ramp {
  using Arithmetic = double;
  Strengths c{1};
  Index numbers = 3;

  Index dim() const { return numbers; }
  void inputs(const RowTile& tile, double* p) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index d = 0; d < tile.dim; ++d) p[i * tile.y_stride + d] = c[0] * (tile.at[0][i] + static_cast<double>(d));
    }
  }
  void input_grads(const RowTile& tile, const double* d_p, double* d_params) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index d = 0; d < tile.dim; ++d) {
        d_params[0] += d_p[i * tile.y_stride + d] * (tile.at[0][i] + static_cast<double>(d));
      }
    }
  }
  Index param_size() const { return 1; }
  void collect(Index, Index, const double* d) const { c.grad[0] += d[0]; }
};

/// y = (x, c_h · position · x): twice as wide as x; or, with `wide` off, y = c_h · position · x
struct Twice {
  using Arithmetic = double;
  Strengths c;
  bool wide = true;

  Index out_dim(Index dim) const { return wide ? 2 * dim : dim; }
  double factor(const RowTile& tile, Index i) const { return c[tile.head] * tile.at[0][i]; }
  void turn(const RowTile& tile, const double* x, double* y) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index d = 0; d < tile.dim; ++d) {
        const double number = x[i * tile.x_stride + d];
        y[i * tile.y_stride + d + (wide ? tile.dim : 0)] = factor(tile, i) * number;
        if (wide) y[i * tile.y_stride + d] = number;
      }
    }
  }
  void turn_grads(const RowTile& tile, const double* x, const double* d_y, double* d_x, double* d_params) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index d = 0; d < tile.dim; ++d) {
        const double down = d_y[i * tile.y_stride + d + (wide ? tile.dim : 0)];
        d_params[0] += down * tile.at[0][i] * x[i * tile.x_stride + d];
        d_x[i * tile.x_stride + d] = factor(tile, i) * down + (wide ? d_y[i * tile.y_stride + d] : 0);
      }
    }
  }
  Index param_size() const { return 1; }
  void collect(Index, Index head, const double* d) const { c.grad[static_cast<std::size_t>(head)] += d[0]; }
};

}  // namespace bearing::test
