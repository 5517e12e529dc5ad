#include <bearing/encodings/position_temperature.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "text.hpp"

namespace bearing {

using text::concat;

double PositionTemperature::factor(double m) const {
  if (!(m + static_cast<double>(first) >= 0)) {
    throw RangeError(concat("[PositionTemperature] m: must be at least -first, got ", m, " for a first of ",
                            static_cast<Index>(first)));
  }
  return 1 + beta * std::log1p(std::floor((m + static_cast<double>(first)) / length));
}

template <class A>
TemperatureRows<A>::TemperatureRows(const PositionTemperature& temperature) : temperature_(temperature) {
  if (!std::isfinite(temperature.beta)) {
    throw RangeError(concat("[TemperatureRows] beta: must be finite, got ", temperature.beta));
  }
  if (temperature.first < -max_position || temperature.first > max_position) {
    throw RangeError(
        concat("[TemperatureRows] first: must be between -2^31 and 2^31, got ", static_cast<Index>(temperature.first)));
  }
  if (!(std::isfinite(temperature.length) && temperature.length > 0)) {
    throw RangeError(concat("[TemperatureRows] length: must be finite and above 0, got ", temperature.length));
  }
}

template <class A>
void TemperatureRows<A>::check(const char* function, const Problem& problem) const {
  const auto least = -static_cast<double>(temperature_.first);
  for (Index b = 0; b < problem.batch; ++b) {
    for (Index i = 0; i < problem.q_len; ++i) {
      const double m = problem.q_positions->real(0, b, i);
      if (m >= least) continue;
      throw RangeError(
          concat("[", function, "] positions: temperature needs positions of at least -first = ", least, ", got ", m));
    }
  }
}

template <class A>
void TemperatureRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  for (Index i = 0; i < tile.rows; ++i) {
    const A factor = tile.side == Side::query ? static_cast<A>(temperature_.factor(tile.at[0][i])) : A{1};
    for (Index d = 0; d < tile.dim; ++d) y[i * tile.y_stride + d] = factor * x[i * tile.x_stride + d];
  }
}

template <class A>
void TemperatureRows<A>::turn_grads(const RowTile& tile, const A*, const A* d_y, A* d_x, A*) const {
  RowTile back = tile;
  back.x_stride = tile.y_stride;
  back.y_stride = tile.x_stride;
  turn(back, d_y, d_x);
}

template class TemperatureRows<float>;
template class TemperatureRows<double>;

}  // namespace bearing
