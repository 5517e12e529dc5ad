#include <bearing/encodings/position_temperature.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "describe/describer.hpp"
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

std::string PositionTemperature::formula() const {
  const Index counted_from = first;
  const std::string place = counted_from == 0  ? "p"
                            : counted_from > 0 ? concat("(p + ", counted_from, ")")
                                               : concat("(p - ", -counted_from, ")");
  return concat("1 + ", beta, "·ln(1 + floor(", place, "/", length, "))");
}

template <class A>
TemperatureRows<A>::TemperatureRows(const PositionTemperature& temperature) : temperature_(temperature) {
  if (!std::isfinite(temperature.beta)) {
    throw RangeError(concat("[TemperatureRows] beta: must be finite, got ", temperature.beta));
  }
  if (temperature.first < -max_position || temperature.first > max_position) {
    throw RangeError(
        concat("[TemperatureRows] first: must be from -2^31 to 2^31, got ", static_cast<Index>(temperature.first)));
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

void describe_position_temperature(Describer& to) {
  to.home("position_temperature", {"Nakanishi", 2025, "arXiv 2501.19399"});
  to.record("PositionTemperature", PositionTemperature{.first = 0},
            "Attention temperature by position: queries far into the sequence grow with the logarithm of their "
            "position.\n\n"
            "    q_i <- q_i (1 + beta ln(1 + floor((m_i + first) / length)))\n\n"
            "It does not tell the order of tokens; models use it with RoPE, or in layers without an encoding.\n\n"
            "Nakanishi 2025, arXiv 2501.19399; Llama 4.")
      .member("beta", &PositionTemperature::beta, "By how much queries grow.")
      .member("length", &PositionTemperature::length,
              "Tokens per step: the factor is 1 for the first `length` of them.")
      .member("first", &PositionTemperature::first, "What position 0 counts as: 1 in Llama 4, 0 in Ministral 3.")
      .maker("llama4", &PositionTemperature::llama4, {{"attn_scale", 0.1}, {"floor_scale", 8192.0}},
             "The spec of a Llama 4 config's attn_scale and floor_scale.")
      .maker(
          "ministral3", &PositionTemperature::ministral3, {"original_length", {"beta", 0.1}},
          "The spec of a Ministral 3 or Mistral 4 config's original_max_position_embeddings and llama_4_scaling_beta.")
      .method("factor", &PositionTemperature::factor, {"m"}, "The factor of a query at position m.")
      .method("formula", &PositionTemperature::formula, {}, "The factor at position p, in words.");
  to.encoding<PositionTemperature>(
        "TemperatureRows",
        "The temperature as an encoding of rows: multiplies queries, copies keys. Positions count tokens from 0 on.\n\n"
        "    q_i <- q_i (1 + beta ln(1 + floor((m_i + first) / length)))\n\nNakanishi 2025, arXiv 2501.19399.",
        {}, make_with_spec<TemperatureRows>)
      .causal()
      .called("position_temperature", "position temperature", "queries grow with the logarithm of position",
              [](const ExampleSize& size) {
                return PositionTemperature::ministral3(std::max(1.0, static_cast<double>(size.length) / 4));
              })
      .also({"temperature", "ssmax", "llama4_temperature"});
}

}  // namespace bearing
