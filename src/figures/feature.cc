#include <array>
#include <bearing/error.hpp>
#include <bearing/linear_attention.hpp>

#include "figures/kinds.hpp"
#include "figures/parts.hpp"

// The feature maps of linear attention and their slopes, as linear_attention() itself computes them: the state after a
// key k with value 1 is φ(k), and its gradient by k the slope.

namespace bearing::inspect {
namespace {

struct NamedMap {
  FeatureMap map;
  const char* name;
};
constexpr std::array maps{NamedMap{FeatureMap::elu_plus_one, "elu + 1"}, NamedMap{FeatureMap::relu, "relu"},
                          NamedMap{FeatureMap::identity, "identity"}};

/// φ and its slope at every x, one sequence of one token each.
struct Curve {
  std::vector<double> value, slope;
};
Curve curve_of(FeatureMap map, const std::vector<double>& x) {
  const auto n = static_cast<Index>(x.size());
  const std::vector<double> ones(x.size(), 1.0), zeros(x.size(), 0.0);
  Curve curve{zeros, zeros};
  std::vector<double> out = zeros, d_s = ones;
  const auto tokens = [n](auto* data) { return dense(data, n, 1, 1, 1); };
  const LinearAttentionInputs<double> in{tokens(ones.data()), tokens(x.data()), tokens(ones.data())};
  const LinearAttentionOptions options{.mask = Mask::none, .feature_map = map, .normaliser = Normaliser::none};
  linear_attention<double>(in, tokens(out.data()), {.s = tokens(curve.value.data())}, {}, options);
  linear_attention_backward<double>(in, tokens(zeros.data()), {},
                                    {.d_k = tokens(curve.slope.data()), .d_state = {.s = tokens(d_s.data())}}, {},
                                    options);
  return curve;
}

Figure feature(std::span<const Subject>, const FigureOptions&) {
  constexpr Index half = 192;  // steps of 1/48 on either side of 0
  std::vector<double> x;
  for (Index i = -half; i <= half; ++i) x.push_back(static_cast<double>(i) / 48);
  Figure figure{.title = "Feature maps of linear attention", .columns = 2};
  Panel values{.title = "feature map", .x = {"x", x.front(), x.back()}}, slopes = values;
  slopes.title = "its slope";
  Range reached, slope_reached;
  for (std::size_t n = 0; n < maps.size(); ++n) {
    const Curve curve = curve_of(maps[n].map, x);
    const int colour = static_cast<int>(n);
    values.series.push_back({.label = maps[n].name, .x = x, .y = curve.value, .colour = colour});
    slopes.series.push_back({.label = maps[n].name, .x = x, .y = curve.slope, .colour = colour});
    reached.reach(curve.value), slope_reached.reach(curve.slope);
    Range own;
    own.reach(curve.value);
    figure.text += text::concat(maps[n].name, " is between ", short_number(own.low), " and ", short_number(own.high),
                                n + 1 < maps.size() ? ", " : "");
  }
  figure.text += text::concat(" for x from ", short_number(x.front()), " to ", short_number(x.back()),
                              "; only elu + 1 is above 0 and has a slope everywhere, so that no key is lost.");
  values.y = axis_over("value", reached), slopes.y = axis_over("slope", slope_reached);
  values.guides = slopes.guides = {{.at = 0}};
  figure.panels = {values, slopes};
  return figure;
}

}  // namespace

FigureKind feature_kind() { return {"feature", "elu + 1 and other maps of linear attention", 0, 0, {}, feature}; }

}  // namespace bearing::inspect
