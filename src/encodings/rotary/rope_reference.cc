#include <bearing/error.hpp>
#include <bearing/reference.hpp>
#include <cmath>
#include <complex>

#include "tensor_checks.hpp"
#include "text.hpp"

namespace bearing::reference {
namespace {

/// The two elements of pair i.
struct Pair {
  Index first, second;
};

Pair elements(const RopeFrequencies& frequencies, Index i) {
  if (frequencies.pairing == Pairing::interleaved) return {frequencies.begin + 2 * i, frequencies.begin + 2 * i + 1};
  Index first = 0, count = frequencies.pairs();  // of the pairs that are halved together
  for (const Index of_block : frequencies.blocks) {
    if (i < first + of_block) {
      count = of_block;
      break;
    }
    first += of_block;
  }
  const Index u = frequencies.begin + 2 * first + i - first;
  return {u, u + count};
}

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// The coordinate that turns pair i; a position with one axis serves all.
double coordinate(const RopeFrequencies& frequencies, View<const double, 1> p, Index i) {
  return p(p.shape[0] == 1 ? 0 : frequencies.axis[at(i)]);
}

void require(bool holds, const char* function, const char* argument, const char* what, Index wanted, Index got) {
  if (holds) return;
  throw ShapeError(
      text::concat("[reference::", function, "] ", argument, ": must have ", wanted, " ", what, ", got ", got));
}

void check_position(const char* function, const RopeFrequencies& frequencies, View<const double, 1> p) {
  require(p.shape[0] == 1 || p.shape[0] == frequencies.axes, function, "p", "axes", frequencies.axes, p.shape[0]);
}

void check_head(const char* function, const RopeFrequencies& frequencies, View<const double, 1> p,
                View<const double, 1> x, View<const double, 1> y) {
  const Index head_dim = frequencies.head_dim;
  check_position(function, frequencies, p);
  require(x.shape[0] == head_dim, function, "x", "elements", head_dim, x.shape[0]);
  require(y.shape[0] == head_dim, function, "y", "elements", head_dim, y.shape[0]);
}

std::vector<double> copy(View<const double, 1> x) {
  std::vector<double> values;
  for (Index d = 0; d < x.shape[0]; ++d) values.push_back(x(d));
  return values;
}

/// The elementwise form; direction −1 turns back, which is the transpose, because a·R(φ)ᵀ = a·R(−φ).
void turn(const RopeFrequencies& frequencies, int direction, View<const double, 1> p, View<const double, 1> x,
          View<double, 1> y) {
  const std::vector<double> from = copy(x);
  std::vector<double> cos(from.size(), 1), sin(from.size(), 0), partner(from.size(), 0);
  for (Index i = 0; i < frequencies.pairs(); ++i) {
    const auto [u, v] = elements(frequencies, i);
    const CosSin turned = cos_sin(frequencies, i, coordinate(frequencies, p, i));
    cos[at(u)] = cos[at(v)] = turned.cos;
    sin[at(u)] = sin[at(v)] = direction * turned.sin;
    partner[at(u)] = -from[at(v)];
    partner[at(v)] = from[at(u)];
  }
  for (Index d = 0; d < frequencies.head_dim; ++d) {
    y(d) = from[at(d)] * cos[at(d)] + partner[at(d)] * sin[at(d)];
  }
}

View<const double, 1> head(View<const double, 4> x, Index b, Index h, Index t) {
  return {&x(b, h, t, 0), {x.shape[3]}, {x.stride[3]}};
}
View<double, 1> head(View<double, 4> x, Index b, Index h, Index t) {
  return {&x(b, h, t, 0), {x.shape[3]}, {x.stride[3]}};
}

void turn_all(const char* function, int direction, const RopeFrequencies& frequencies, View<const double, 4> x,
              const Positions& positions, View<double, 4> y) {
  if (x.shape[3] != frequencies.head_dim || y.shape != x.shape) {
    throw ShapeError(text::concat("[reference::", function, "] input and output: must have one shape that ends in ",
                                  frequencies.head_dim, ", got ", x.shape, " and ", y.shape));
  }
  const std::string name = text::concat("reference::", function);
  check_tensor(name.c_str(), "input", x);
  check_tensor(name.c_str(), "output", y);
  positions.check("reference::rotate", "positions", frequencies.axes, x.shape[0], x.shape[2]);
  for (Index b = 0; b < x.shape[0]; ++b) {
    for (Index t = 0; t < x.shape[2]; ++t) {
      std::vector<double> p;
      for (Index axis = 0; axis < positions.axes(); ++axis) p.push_back(positions.real(axis, b, t));
      for (Index h = 0; h < x.shape[1]; ++h) {
        turn(frequencies, direction, dense<const double>(p.data(), positions.axes()), head(x, b, h, t),
             head(y, b, h, t));
      }
    }
  }
}

}  // namespace

CosSin cos_sin(const RopeFrequencies& frequencies, Index pair, double position) {
  const double theta = frequencies.inv_freq[at(pair)];
  if (frequencies.angles == Angles::as_float32) {
    const float angle = static_cast<float>(position) * static_cast<float>(theta);
    const float factor = static_cast<float>(frequencies.attention_factor);
    return {static_cast<float>(std::cos(static_cast<double>(angle))) * factor,
            static_cast<float>(std::sin(static_cast<double>(angle))) * factor};
  }
  const double angle = position * theta;
  const double rest = std::fma(position, theta, -angle) + position * frequencies.inv_freq_rest[at(pair)];
  const double cos = std::cos(angle) * std::cos(rest) - std::sin(angle) * std::sin(rest);
  const double sin = std::sin(angle) * std::cos(rest) + std::cos(angle) * std::sin(rest);
  return {frequencies.attention_factor * cos, frequencies.attention_factor * sin};
}

void rotate_elementwise(const RopeFrequencies& frequencies, View<const double, 1> p, View<const double, 1> x,
                        View<double, 1> y) {
  check_head("rotate_elementwise", frequencies, p, x, y);
  turn(frequencies, +1, p, x, y);
}

void rotate_complex(const RopeFrequencies& frequencies, View<const double, 1> p, View<const double, 1> x,
                    View<double, 1> y) {
  check_head("rotate_complex", frequencies, p, x, y);
  const std::vector<double> from = copy(x);
  for (Index d = 0; d < frequencies.head_dim; ++d) y(d) = from[at(d)];
  for (Index i = 0; i < frequencies.pairs(); ++i) {
    const auto [u, v] = elements(frequencies, i);
    const CosSin turned = cos_sin(frequencies, i, coordinate(frequencies, p, i));
    const std::complex<double> z = std::complex(from[at(u)], from[at(v)]) * std::complex(turned.cos, turned.sin);
    y(u) = z.real();
    y(v) = z.imag();
  }
}

std::vector<double> rotation_matrix(const RopeFrequencies& frequencies, View<const double, 1> p) {
  check_position("rotation_matrix", frequencies, p);
  const Index n = frequencies.head_dim;
  std::vector<double> matrix(at(n * n), 0.0);
  for (Index d = 0; d < n; ++d) matrix[at(d * n + d)] = 1;
  for (Index i = 0; i < frequencies.pairs(); ++i) {
    const auto [u, v] = elements(frequencies, i);
    const CosSin turned = cos_sin(frequencies, i, coordinate(frequencies, p, i));
    matrix[at(u * n + u)] = turned.cos;
    matrix[at(u * n + v)] = -turned.sin;
    matrix[at(v * n + u)] = turned.sin;
    matrix[at(v * n + v)] = turned.cos;
  }
  return matrix;
}

void rotate_matrix(const RopeFrequencies& frequencies, View<const double, 1> p, View<const double, 1> x,
                   View<double, 1> y) {
  check_head("rotate_matrix", frequencies, p, x, y);
  const std::vector<double> from = copy(x), matrix = rotation_matrix(frequencies, p);
  const Index n = frequencies.head_dim;
  for (Index row = 0; row < n; ++row) {
    double sum = 0;
    for (Index column = 0; column < n; ++column) sum += matrix[at(row * n + column)] * from[at(column)];
    y(row) = sum;
  }
}

void rotate(const RopeFrequencies& frequencies, View<const double, 4> x, const Positions& positions,
            View<double, 4> y) {
  turn_all("rotate", +1, frequencies, x, positions, y);
}

void rotate_backward(const RopeFrequencies& frequencies, View<const double, 4> d_y, const Positions& positions,
                     View<double, 4> d_x) {
  turn_all("rotate_backward", -1, frequencies, d_y, positions, d_x);
}

void rotate_xpos(const Xpos& xpos, int exponent, View<const double, 1> p, View<const double, 1> x, View<double, 1> y) {
  const RopeFrequencies frequencies = resolve(xpos.rope);
  check_head("rotate_xpos", frequencies, p, x, y);
  turn(frequencies, +1, p, x, y);
  for (Index i = 0; i < frequencies.pairs(); ++i) {
    const auto [u, v] = elements(frequencies, i);
    const double share = static_cast<double>(i) / static_cast<double>(frequencies.pairs());  // 2i/r
    const double zeta = (share + xpos.gamma) / (1 + xpos.gamma);
    const double distance = coordinate(frequencies, p, i) - xpos.centre;
    const double factor = std::pow(zeta, exponent * distance / xpos.scale_base);
    y(u) *= factor;
    y(v) *= factor;
  }
}

}  // namespace bearing::reference
