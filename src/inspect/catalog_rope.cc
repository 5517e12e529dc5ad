#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/rope_variants.hpp>
#include <bearing/encodings/xpos.hpp>
#include <cmath>

#include "inspect/make.hpp"

// RoPE with its scalings, RoPE on two axes, xPos. The scaled ones are stretched fourfold, from a quarter of the
// length.

namespace bearing::inspect {
namespace {

constexpr double stretch = 4;

Rope rope_of(const SpecimenOptions& options, RopeScaling scaling = NoScaling{}) {
  return {.head_dim = options.dim, .pairing = Pairing::half, .scaling = std::move(scaling)};
}

Specimen turned_by(const SpecimenOptions& options, RopeTable<double> q_table, RopeTable<double> k_table) {
  Specimen specimen{.options = options};
  const auto tables =
      std::make_shared<const std::pair<RopeTable<double>, RopeTable<double>>>(std::move(q_table), std::move(k_table));
  specimen.turn_rows = [tables](Side side, const Positions& at, View<const double, 4> x, View<double, 4> y,
                                const Executor& on) {
    rotate_to<double>(side == Side::query ? tables->first : tables->second, x, y, at, on);
  };
  return specimen;
}

Specimen rotary(const SpecimenOptions& options, const RopeTable<double>& table) {
  Specimen specimen = turned_by(options, table, table);
  specimen.held = static_cast<Index>(table.bytes() / sizeof(double));
  return specimen;
}

template <class Scaling>
Scaling stretched(const SpecimenOptions& options) {
  Scaling scaling;
  if constexpr (requires { scaling.alpha; }) scaling.alpha = stretch;
  if constexpr (requires { scaling.factor; }) scaling.factor = stretch;
  if constexpr (requires { scaling.trained_length; }) {
    scaling.trained_length = std::max<Index>(2, options.length / static_cast<Index>(stretch));
  }
  if constexpr (requires { scaling.fraction; }) scaling.fraction = 0.25;
  return scaling;
}

template <class Scaling>
Specimen make_scaled(const SpecimenOptions& options) {
  return rotary(options, RopeTable<double>(rope_of(options, stretched<Scaling>(options)), options.length));
}

Specimen make_longrope(const SpecimenOptions& options) {
  LongRopeScaling scaling = stretched<LongRopeScaling>(options);
  const Index pairs = options.dim / 2;
  for (Index i = 0; i < pairs; ++i) {  // the first pairs are left alone, the last ones stretched whole
    const double along = pairs == 1 ? 1 : static_cast<double>(i) / static_cast<double>(pairs - 1);
    scaling.short_factor.push_back(1);
    scaling.long_factor.push_back(std::pow(stretch, along));
  }
  return rotary(options, RopeTable<double>(rope_of(options, scaling), options.length));
}

Specimen make_axial(const SpecimenOptions& options) {
  Rope rope = rope_of(options);
  rope.axes = RopeAxes::axial({options.dim / 4, options.dim / 2 - options.dim / 4});
  Specimen specimen = rotary(options, RopeTable<double>(rope, options.length));
  specimen.width = square_side(options.length);
  return specimen;
}

Specimen make_high_frequency(const SpecimenOptions& options) {
  return rotary(options, {high_frequency(resolve(rope_of(options)), options.length), options.length});
}

Specimen make_negative_angle(const SpecimenOptions& options) {
  return rotary(options, {negative_angle(resolve(rope_of(options))), options.length});
}

Specimen make_xpos(const SpecimenOptions& options) {
  const XposTable<double> tables(Xpos{.rope = rope_of(options)}, options.length);
  Specimen specimen = turned_by(options, tables.q, tables.k);
  specimen.causal = true;
  specimen.held = static_cast<Index>((tables.q.bytes() + tables.k.bytes()) / sizeof(double));
  return specimen;
}

}  // namespace

void list_rope(std::vector<Description>& all) {
  constexpr const char* su = "Su et al.";
  constexpr const char* yarn = "Peng et al.";
  all.insert(all.end(), {entry("rope", "RoPE", su, 2021, "arXiv 2104.09864", "turns pairs by position times frequency",
                               make_scaled<NoScaling>),
                         entry("rope_linear", "RoPE, position interpolation", "Chen et al.", 2023, "arXiv 2306.15595",
                               "RoPE with all frequencies divided", make_scaled<LinearScaling>),
                         entry("rope_ntk", "RoPE, NTK-aware", "bloc97", 2023, "r/LocalLLaMA", "RoPE with a larger base",
                               make_scaled<NtkScaling>),
                         entry("rope_dynamic_ntk", "RoPE, dynamic NTK", "emozilla", 2023, "r/LocalLLaMA",
                               "RoPE with a base that grows with the sequence", make_scaled<DynamicNtkScaling>),
                         entry("rope_alpha", "RoPE, NTK with alpha", "Hunyuan team", 2024, "arXiv 2411.02265",
                               "RoPE with a larger base, as given", make_scaled<AlphaScaling>),
                         entry("rope_ntk_by_parts", "RoPE, NTK by parts", "bloc97", 2023, "jquesnelle/yarn",
                               "RoPE with slow pairs divided, fast ones kept", make_scaled<NtkByPartsScaling>),
                         entry("rope_yarn", "RoPE, YaRN", yarn, 2023, "arXiv 2309.00071",
                               "RoPE with slow pairs divided and logits made larger", make_scaled<YarnScaling>),
                         entry("rope_deepseek_yarn", "RoPE, DeepSeek's YaRN", "DeepSeek-AI", 2024, "arXiv 2405.04434",
                               "YaRN with a factor of the softmax scale", make_scaled<DeepseekYarnScaling>),
                         entry("rope_longrope", "RoPE, LongRoPE", "Ding et al.", 2024, "arXiv 2402.13753",
                               "RoPE with a divisor for each pair", make_longrope),
                         entry("rope_llama3", "RoPE, Llama 3.1", "Llama team", 2024, "arXiv 2407.21783",
                               "RoPE with slow pairs divided, by wavelength", make_scaled<Llama3Scaling>),
                         entry("rope_proportional", "RoPE, proportional", "Barbero et al.", 2024, "arXiv 2410.06205",
                               "RoPE on a quarter of the frequencies", make_scaled<ProportionalScaling>),
                         entry("rope_axial", "RoPE on two axes", "Heo et al.", 2024, "arXiv 2403.13298",
                               "RoPE with half of the pairs for each coordinate", make_axial),
                         entry("rope_high_frequency", "RoPE, high frequencies only", "Chen et al.", 2024,
                               "arXiv 2410.21216", "RoPE without pairs that complete no turn", make_high_frequency),
                         entry("rope_negative_angle", "RoPE, negative angle", "Karpathy", 2025, "karpathy/nanochat",
                               "RoPE that turns the other way", make_negative_angle),
                         entry("xpos", "xPos", "Sun et al.", 2022, "arXiv 2212.10554",
                               "RoPE whose pairs shrink with distance", make_xpos)});
}

}  // namespace bearing::inspect
