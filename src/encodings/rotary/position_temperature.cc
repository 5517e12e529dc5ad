#include <algorithm>
#include <bearing/encodings/position_temperature.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "encodings/head_sets.hpp"
#include "encodings/temperature_checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

PositionTemperature PositionTemperature::qwen(double seq_length) {
  if (!(std::isfinite(seq_length) && seq_length > 1)) {
    throw RangeError(concat("[PositionTemperature] seq_length: must be finite and above 1, got ", seq_length));
  }
  // ln n / ln L = 1 + (1 / ln L)·ln(n / L)
  return {.form = TemperatureForm::clamped, .beta = 1 / std::log(seq_length), .length = seq_length, .first = 1};
}

double PositionTemperature::factor(double m) const {
  const double n = m + static_cast<double>(first);
  if (!(n >= 0)) {
    throw RangeError(concat("[PositionTemperature] m: must be at least -first, got ", m, " for a first of ",
                            static_cast<Index>(first)));
  }
  switch (form) {
    case TemperatureForm::stepped:
      return 1 + beta * std::log1p(std::floor(n / length));
    case TemperatureForm::clamped:
      return 1 + beta * std::log(std::max(1.0, n / length));
    case TemperatureForm::power:
      return std::exp(beta * std::log1p(n / length));
    case TemperatureForm::learned:
      break;
  }
  throw RangeError(
      "[PositionTemperature] form: must be stepped, clamped or power for a factor without parameters, "
      "got learned, which has one for each head");
}

std::string PositionTemperature::formula() const {
  const Index counted_from = first;
  const std::string alone = counted_from == 0  ? "p"
                            : counted_from > 0 ? concat("p + ", counted_from)
                                               : concat("p - ", -counted_from);
  const std::string place = counted_from == 0 ? alone : '(' + alone + ')';
  switch (form) {
    case TemperatureForm::clamped:
      return concat("1 + ", beta, "·ln(max(1, ", place, "/", length, "))");
    case TemperatureForm::power:
      return concat("(1 + ", place, "/", length, ")^", beta);
    case TemperatureForm::learned:
      return concat("scale·ln(", counted_from > 0 ? alone : concat("max(1, ", alone, ")"),
                    ") + bias, learned per head");
    case TemperatureForm::stepped:
      break;
  }
  return concat("1 + ", beta, "·ln(1 + floor(", place, "/", length, "))");
}

template <class A>
TemperatureRows<A>::TemperatureRows(const PositionTemperature& temperature, Param<A, 1> scale, Param<A, 1> bias,
                                    Index group)
    : temperature_(temperature), scale_(scale), bias_(bias), group_(group) {
  check_temperature("TemperatureRows", temperature);
  const bool given =
      scale.value.data != nullptr || scale.value.size() != 0 || bias.value.data != nullptr || bias.value.size() != 0;
  if (!learned() && given) {
    throw ShapeError("[TemperatureRows] scale: must be left out, and so must bias, except in the learned form");
  }
  check_group("TemperatureRows", learned() ? scale.value.shape[0] : 1, group);
  if (!learned()) return;
  check_set("TemperatureRows", "scale", scale, {scale.value.shape[0]}, "[sets]");
  check_set("TemperatureRows", "bias", bias, {scale.value.shape[0]}, "[sets]");
}

template <class A>
void TemperatureRows<A>::check(const char* function, const Problem& problem) const {
  const Index heads = scale_.value.shape[0] * group_;
  const bool keys = problem.side == Side::key;  // which have nothing of their own
  if (learned() && (keys ? problem.heads > heads : problem.heads != heads)) {
    throw ShapeError(concat("[", function, "] PositionTemperature: must have a scale and a bias for each of ",
                            problem.heads, " heads, got ", scale_.value.shape[0], " sets for ", group_, " heads each"));
  }
  check_finite(function, "PositionTemperature.scale", scale_.value);
  check_finite(function, "PositionTemperature.bias", bias_.value);
  check_places(function, temperature_, problem);
}

template <class A>
double TemperatureRows<A>::factor(const RowTile& tile, Index row) const {
  if (tile.side == Side::key) return 1;
  const double m = tile.at[0][row];
  if (!learned()) return temperature_.factor(m);
  const Index set = tile.head / group_;
  return static_cast<double>(scale_.value(set)) * logarithm(m) + static_cast<double>(bias_.value(set));
}

template <class A>
double TemperatureRows<A>::logarithm(double m) const {
  return std::log(std::max(1.0, m + static_cast<double>(temperature_.first)));
}

template <class A>
void TemperatureRows<A>::turn(const RowTile& tile, const A* x, A* y) const {
  for (Index i = 0; i < tile.rows; ++i) {
    const A by = static_cast<A>(factor(tile, i));
    for (Index d = 0; d < tile.dim; ++d) y[i * tile.y_stride + d] = by * x[i * tile.x_stride + d];
  }
}

template <class A>
void TemperatureRows<A>::turn_grads(const RowTile& tile, const A* x, const A* d_y, A* d_x, A* d_params) const {
  const auto [to_scale, to_bias] = grad_block(0, tile.head).split(d_params);
  const bool learn = tile.side == Side::query && (to_scale != nullptr || to_bias != nullptr);
  double d_scale = 0, d_bias = 0;
  for (Index i = 0; i < tile.rows; ++i) {
    const A* d_out = d_y + i * tile.y_stride;
    const A by = static_cast<A>(factor(tile, i));
    double d_factor = 0;
    for (Index d = 0; learn && d < tile.dim; ++d) {
      d_factor += static_cast<double>(x[i * tile.x_stride + d]) * static_cast<double>(d_out[d]);
    }
    for (Index d = 0; d < tile.dim; ++d) d_x[i * tile.x_stride + d] = by * d_out[d];
    if (!learn) continue;
    d_scale += d_factor * logarithm(tile.at[0][i]);
    d_bias += d_factor;
  }
  if (learn && to_scale != nullptr) *to_scale += static_cast<A>(d_scale);
  if (learn && to_bias != nullptr) *to_bias += static_cast<A>(d_bias);
}

template class TemperatureRows<float>;
template class TemperatureRows<double>;

template <>
struct describe::Words<TemperatureForm> {
  static constexpr const char* all[] = {"stepped", "clamped", "power", "learned"};
};

namespace {

constexpr const char* formulas =
    "    stepped   q_i <- q_i (1 + beta ln(1 + floor(n / length)))       n = m_i + first\n"
    "    clamped   q_i <- q_i (1 + beta ln(max(1, n / length)))\n"
    "    power     q_i <- q_i (1 + n / length)^beta\n"
    "    learned   q_i <- q_i (scale_h ln(max(1, n)) + bias_h)\n\n";

void describe_temperature_spec(Describer& to) {
  static const std::string text = concat(
      "Attention temperature by position: queries far into the sequence grow with the logarithm of their position.\n\n",
      formulas,
      "It does not tell the order of tokens; models use it with RoPE, or in layers without an encoding.\n\n"
      "Nakanishi 2025, arXiv 2501.19399; Llama 4.");
  to.record("PositionTemperature", PositionTemperature{.first = 0}, text.c_str())
      .member("form", &PositionTemperature::form, "How the factor grows.")
      .member("beta", &PositionTemperature::beta, "By how much queries grow; not of the learned form.")
      .member("length", &PositionTemperature::length,
              "Tokens per step, or after which the factor grows; not of the learned form.")
      .member("first", &PositionTemperature::first,
              "What position 0 counts as: 0 in Ministral 3 and Mistral 4, 1 in the others.")
      .maker("llama4", &PositionTemperature::llama4, {{"attn_scale", 0.1}, {"floor_scale", 8192.0}},
             "The spec of a Llama 4 config's attn_scale and floor_scale.")
      .maker(
          "ministral3", &PositionTemperature::ministral3, {"original_length", {"beta", 0.1}},
          "The spec of a Ministral 3 or Mistral 4 config's original_max_position_embeddings and llama_4_scaling_beta.")
      .maker("inkling", &PositionTemperature::inkling, {"n_floor", {"alpha", 0.1}},
             "The spec of an Inkling config's log_scaling_n_floor and log_scaling_alpha.")
      .maker("qwen", &PositionTemperature::qwen, {"seq_length"},
             "The spec of a Qwen (1) config's seq_length with use_logn_attn: ln n / ln seq_length beyond it.")
      .maker("beam", &PositionTemperature::beam, {{"length", 2048.0}, {"exponent", 0.1}},
             "The spec of Beam's layers without RoPE.")
      .maker("mistral_large4", &PositionTemperature::mistral_large4, {},
             "The spec of Mistral Large 4, whose scale and bias are in its weights.")
      .method("factor", &PositionTemperature::factor, {"m"}, "The factor of a query at position m.")
      .method("formula", &PositionTemperature::formula, {}, "The factor at position p, in words.");
}

}  // namespace

void describe_position_temperature(Describer& to) {
  to.home("position_temperature", {"Nakanishi", 2025, "arXiv 2501.19399"});
  describe_temperature_spec(to);
  static const std::string text = concat(
      "The temperature as an encoding of rows: multiplies queries, copies keys. Positions count tokens from 0 on.\n\n",
      formulas,
      "scale, bias [sets]: of the learned form. Head h uses set h / group, as in RopeMixedRows.\n\n"
      "Nakanishi 2025, arXiv 2501.19399.");
  const auto learned = [](const Record& spec) {
    return spec.as<PositionTemperature>()->form == TemperatureForm::learned;
  };
  to.encoding_with<PositionTemperature, Grouped, 1, 1>(
        "TemperatureRows", text.c_str(),
        {Parameter("scale", {"sets"}, "What multiplies the logarithm.")
             .starts(constant(0))
             .draws(positive(0.25))
             .only_if(learned),
         Parameter("bias", {"sets"}, "What is added to it.").starts(constant(1)).draws(positive(0.5)).only_if(learned)},
        make_grouped<TemperatureRows>)
      .causal()
      .called("position_temperature", "position temperature", "queries grow with the logarithm of position",
              [](const ExampleSize& size) {
                return PositionTemperature::ministral3(std::max(1.0, static_cast<double>(size.length) / 4));
              })
      .also({"temperature", "ssmax", "llama4_temperature"});
}

}  // namespace bearing
