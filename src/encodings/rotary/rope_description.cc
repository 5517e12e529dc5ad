#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/rope_variants.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/encodings/xpos.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "encodings/rotary/table_length.hpp"

// What RoPE, its scalings and xPos say of themselves.

namespace bearing {

template <>
struct describe::Words<RotaryPart::Where> {
  static constexpr const char* all[] = {"first", "last", "window"};
};
template <>
struct describe::Words<RopeAxes::Order> {
  static constexpr const char* all[] = {"contiguous", "interleaved", "listed"};
};
template <>
struct describe::Words<RopeAxes::Halves> {
  static constexpr const char* all[] = {"head", "axis"};
};
template <>
struct describe::Words<RopeAxes::Frequencies> {
  static constexpr const char* all[] = {"shared", "restarted", "strided"};
};

namespace {

using inspect::Specimen;

constexpr const char* factor_text = "By how much the context is stretched.";
constexpr const char* length_text = "How many tokens the model was trained for before it was stretched.";
constexpr const char* attention_text = "Multiplies cos and sin; if it is not given, the formula's value does.";

void describe_simple_scalings(Describer& to) {
  to.record("NoScaling", NoScaling{}, "RoPE with the frequencies that it was trained with.");
  to.record("LinearScaling", LinearScaling{},
            "Position interpolation (Chen et al. 2023, arXiv 2306.15595): every frequency is divided by the factor.")
      .member("factor", &LinearScaling::factor, factor_text);
  to.record(
        "NtkScaling", NtkScaling{},
        "NTK-aware, static: base · factor^(r/(r − 2)) with r = rotary_dim, which leaves the first pair's frequency\n"
        "alone and divides the last one's by the factor.")
      .member("factor", &NtkScaling::factor, factor_text);
  to.record(
        "DynamicNtkScaling", DynamicNtkScaling{},
        "NTK-aware with a base that grows with the sequence: keys cached at one length must be rebased when it grows.")
      .member("factor", &DynamicNtkScaling::factor, factor_text)
      .member("trained_length", &DynamicNtkScaling::trained_length, length_text);
  to.record("AlphaScaling", AlphaScaling{},
            "NTK with a given alpha (Hunyuan): base · alpha^(r/(r − 2)), at every length.")
      .member("alpha", &AlphaScaling::alpha, "alpha in the formula of the base.");
  to.record("ProportionalScaling", ProportionalScaling{},
            "p-RoPE (Barbero et al. 2024, arXiv 2410.06205; Gemma 4): only the first fraction of the pairs turns.")
      .member("fraction", &ProportionalScaling::fraction, "The fraction of the pairs that turn, from 0 to 1.")
      .member("factor", &ProportionalScaling::factor, "Divides every frequency.");
  to.record("ExplicitFrequencies", ExplicitFrequencies{},
            "The frequencies themselves, radians per token, one per pair.")
      .member("inv_freq", &ExplicitFrequencies::inv_freq, "Radians per token, one per pair.");
  to.record("FrequencyDivisors", FrequencyDivisors{}, "Each frequency divided by its own number (ggml's freq_factors).")
      .member("divisors", &FrequencyDivisors::divisors, "The divisors, one per pair.");
}

void describe_yarn(Describer& to) {
  to.record(
        "NtkByPartsScaling", NtkByPartsScaling{},
        "NTK by parts, YaRN's forerunner. It goes by the turns that a pair makes within trained_length tokens: from\n"
        "beta_slow to beta_fast turns pairs pass from linear interpolation to NTK, from gamma_slow to gamma_fast "
        "turns\n"
        "they pass from NTK to the trained frequencies.")
      .member("factor", &NtkByPartsScaling::factor, factor_text)
      .member("trained_length", &NtkByPartsScaling::trained_length, length_text)
      .member("beta_slow", &NtkByPartsScaling::beta_slow,
              "Pairs that make up to this many turns are divided by the factor.")
      .member("beta_fast", &NtkByPartsScaling::beta_fast, "Pairs that make at least this many turns follow NTK.")
      .member("gamma_slow", &NtkByPartsScaling::gamma_slow, "Pairs that make up to this many turns follow NTK.")
      .member("gamma_fast", &NtkByPartsScaling::gamma_fast,
              "Pairs that make at least this many turns keep their frequency.");
  to.record("YarnScaling", YarnScaling{},
            "YaRN (Peng et al. 2023, arXiv 2309.00071): pairs that make more than beta_fast turns within the\n"
            "trained length keep their frequency. Those that make fewer than beta_slow are divided by the factor. A "
            "ramp leads\n"
            "from one to the other. cos and sin are multiplied by the attention factor.")
      .member("factor", &YarnScaling::factor, factor_text)
      .member("trained_length", &YarnScaling::trained_length, length_text)
      .member("beta_fast", &YarnScaling::beta_fast, "Pairs that make at least this many turns keep their frequency.")
      .member("beta_slow", &YarnScaling::beta_slow, "Pairs that make up to this many turns are divided by the factor.")
      .member("truncate", &YarnScaling::truncate, "Whether the ramp's ends are rounded to whole pairs; not in gpt-oss.")
      .member("attention_factor", &YarnScaling::attention_factor, attention_text)
      .member("mscale", &YarnScaling::mscale, "The attention factor's numerator; goes with mscale_all_dim.")
      .member("mscale_all_dim", &YarnScaling::mscale_all_dim, "The attention factor's denominator; goes with mscale.")
      .member("mscale_slope", &YarnScaling::mscale_slope, "What the factor's logarithm is multiplied by.");
  to.record("DeepseekYarnScaling", DeepseekYarnScaling{},
            "YaRN as in DeepSeek: attention must multiply its softmax scale by\n"
            "RopeFrequencies.softmax_scale_factor.")
      .member("factor", &DeepseekYarnScaling::factor, factor_text)
      .member("trained_length", &DeepseekYarnScaling::trained_length, length_text)
      .member("beta_fast", &DeepseekYarnScaling::beta_fast,
              "Pairs that make at least this many turns keep their frequency.")
      .member("beta_slow", &DeepseekYarnScaling::beta_slow,
              "Pairs that make up to this many turns are divided by the factor.")
      .member("mscale", &DeepseekYarnScaling::mscale, "The attention factor's numerator.")
      .member("mscale_all_dim", &DeepseekYarnScaling::mscale_all_dim,
              "The attention factor's denominator; its square multiplies the softmax scale.")
      .member("attention_factor", &DeepseekYarnScaling::attention_factor, attention_text);
}

void describe_other_scalings(Describer& to) {
  to.record("LongRopeScaling", LongRopeScaling{},
            "LongRoPE (Ding et al. 2024, arXiv 2402.13753; Phi-3): each frequency is divided by its own factor, from\n"
            "the long list if the sequence is longer than the trained length, else from the short one.")
      .member("short_factor", &LongRopeScaling::short_factor, "Divisors up to the trained length, one per pair.")
      .member("long_factor", &LongRopeScaling::long_factor, "Divisors past the trained length, one per pair.")
      .member("trained_length", &LongRopeScaling::trained_length, length_text)
      .member("factor", &LongRopeScaling::factor, factor_text)
      .member("attention_factor", &LongRopeScaling::attention_factor, attention_text)
      .member("short_mscale", &LongRopeScaling::short_mscale, "The attention factor with the short list.")
      .member("long_mscale", &LongRopeScaling::long_mscale, "The attention factor with the long list.");
  to.record("Llama3Scaling", Llama3Scaling{},
            "Llama 3.1: wavelengths below trained_length/high_freq_factor stay, those above "
            "trained_length/low_freq_factor\n"
            "are multiplied by the factor, those between are blended.")
      .member("factor", &Llama3Scaling::factor, factor_text)
      .member("low_freq_factor", &Llama3Scaling::low_freq_factor,
              "Pairs that make up to this many turns are divided by the factor.")
      .member("high_freq_factor", &Llama3Scaling::high_freq_factor,
              "Pairs that make at least this many turns keep their frequency.")
      .member("trained_length", &Llama3Scaling::trained_length, length_text);
}

void describe_geometry(Describer& to) {
  to.record(
        "RotaryPart", RotaryPart{},
        "Which part of the head turns: rotary_dim dimensions, the first ones, the last ones (MLA), or a window from\n"
        "`begin` on. The others pass through.")
      .member("where", &RotaryPart::where, "A window starts at `begin`.")
      .member("begin", &RotaryPart::begin, "The first dimension of a window.");
  to.record(
        "RopeAxes", RopeAxes{},
        "Which coordinate of a token's position turns which pair, for positions [axes, batch, time].\n\n"
        "Use the named forms: sections (M-RoPE of Qwen2-VL), interleaved (Qwen3-VL), axial (2-D: Qwen2-VL's vision\n"
        "tower, DINOv3), strided (Pixtral), listed (any order). RopeAxes() is one axis for every pair.")
      .member("pairs", &RopeAxes::pairs, "How many pairs each axis turns; in the listed form the axis of each pair.")
      .member("order", &RopeAxes::order, "How the pairs are divided among the axes.")
      .member("frequencies", &RopeAxes::frequencies,
              "'shared' frequencies run on over the head, 'restarted' ones start afresh on each axis, of 'strided' "
              "ones each axis takes every A-th.")
      .member("bases", &RopeAxes::bases, "Each axis' base of frequencies; none: the rope's, for all of them.")
      .member("ntk_factors", &RopeAxes::ntk_factors,
              "By how much NTK stretches each axis: its base is multiplied by factor^(r/(r − 2)); none: not at all.")
      .member("still", &RopeAxes::still, "How many pairs at the end have frequency 0; `pairs` does not count them.")
      .member("halves", &RopeAxes::halves,
              "What half pairing halves: the head's turned dimensions, or each axis' block of them.")
      .maker("sections", RopeAxes::sections, {"pairs"},
             "M-RoPE (Wang et al. 2024, arXiv 2409.12191): axis a turns the next pairs[a] pairs; the frequencies\n"
             "run on over the whole head.")
      .maker("interleaved", RopeAxes::interleaved, {"pairs"},
             "M-RoPE of Qwen3-VL: axis a ≥ 1 takes the pairs a, a + A, a + 2A, … below A·pairs[a]; axis 0 the rest.")
      .maker("axial", RopeAxes::axial, {"pairs"}, "As sections, but each axis starts its frequencies afresh.")
      .maker("strided", RopeAxes::strided, {"pairs"},
             "As sections, but axis a takes every A-th of the head's frequencies, starting with the a-th.")
      .maker("blocks", RopeAxes::blocks, {"pairs"},
             "Gemma 4's vision tower: as axial, and half pairing stays within each axis' block of the head.")
      .maker("listed", RopeAxes::listed, {"axis_of_pair"}, "The axis of each pair, in any order.");
}

void describe_spec(Describer& to) {
  to.record("Rope", Rope{.pairing = Pairing::half},
            "Rotary position encoding (Su et al. 2021, arXiv 2104.09864), as a paper or a model's config states it.\n\n"
            "Each pair (u, v) of a query's or key's head is turned by the token's position p times the pair's "
            "frequency θ,\n\n"
            "    (u, v) ← a·(u cos pθ − v sin pθ, u sin pθ + v cos pθ)      θ_i = base^(−2i/rotary_dim) radians per "
            "token\n\n"
            "so that the product of a query at m with a key at n depends on n − m alone. a is 1 except for YaRN and\n"
            "LongRoPE.\n\n"
            "    rope = bearing.Rope(head_dim=128, base=500_000, pairing='half')\n"
            "    rope = bearing.Rope.from_config('config.json')\n"
            "    table = bearing.RopeTable(rope, 8192)         # cos and sin, exact\n"
            "    bearing.rotate(table, q, k, None)             # in place; q, k [batch, heads, time, head_dim]\n\n"
            "It also goes to and from JSON.")
      .member("head_dim", &Rope::head_dim, "How many dimensions a head has.")
      .member("rotary_dim", &Rope::rotary_dim, "How many dimensions turn, an even number; 0 for all.")
      .member("base", &Rope::base, "The base of the frequencies: a config's rope_theta.")
      .member("pairing", &Rope::pairing,
              "Which two elements turn together: 'half' (i, i + r/2: Hugging Face's rotate_half) or 'interleaved' (2i, "
              "2i + 1: GPT-J, Meta's Llama weights).")
      .member("scaling", &Rope::scaling, "How the frequencies are stretched past the trained length.")
      .member("part", &Rope::part, "Where in the head the turned dimensions lie.")
      .member("axes", &Rope::axes, "Which coordinate turns which pair, if positions have several.")
      .member("attention_factor", &Rope::attention_factor,
              "a, the factor of cos and sin. The factor of the scaling multiplies it.")
      .member("log_factors", &Rope::log_factors,
              "LeRoPE's learned alpha: each frequency is multiplied by e^alpha, one per pair; none: 0.");
  to.record(
        "Xpos", Xpos{.rope = {.pairing = Pairing::half}},
        "xPos (Sun et al. 2022, arXiv 2212.10554): RoPE whose pairs also shrink with distance. It is meant for causal "
        "attention.\n\n"
        "    q at m: ζ_i^((m − centre)/scale_base) R(mθ_i) q,   k at n: ζ_i^(−(n − centre)/scale_base) R(nθ_i) k\n\n"
        "with ζ_i = (2i/r + gamma)/(1 + gamma). centre in tokens: choose one and keep it, so that cached keys fit.")
      .member("rope", &Xpos::rope, "The rotation.")
      .member("scale_base", &Xpos::scale_base, "Tokens over which a pair shrinks by its ζ.")
      .member("gamma", &Xpos::gamma, "What keeps the first pair's ζ above 0.")
      .member("centre", &Xpos::centre, "The position that shrinks nothing, in tokens.");
}

// The names. The scaled ones are stretched fourfold, from a quarter of the length.

constexpr double stretch = 4;

Rope rope_of(const ExampleSize& size, RopeScaling scaling = NoScaling{}) {
  return {.head_dim = size.dim, .pairing = Pairing::half, .scaling = std::move(scaling)};
}

template <class Scaling>
Rope scaled(const ExampleSize& size) {
  Scaling scaling;
  if constexpr (requires { scaling.alpha; }) scaling.alpha = stretch;
  if constexpr (requires { scaling.factor; }) scaling.factor = stretch;
  if constexpr (requires { scaling.trained_length; }) {
    scaling.trained_length = std::max<Index>(2, size.length / static_cast<Index>(stretch));
  }
  if constexpr (requires { scaling.fraction; }) scaling.fraction = 0.25;
  if constexpr (std::is_same_v<Scaling, LongRopeScaling>) {
    const Index pairs = size.dim / 2;
    for (Index i = 0; i < pairs; ++i) {  // the first pairs are left alone, the last ones stretched whole
      const double along = pairs == 1 ? 1 : static_cast<double>(i) / static_cast<double>(pairs - 1);
      scaling.short_factor.push_back(1);
      scaling.long_factor.push_back(std::pow(stretch, along));
    }
  }
  return rope_of(size, scaling);
}

/// With the base that its authors' code has for images, of few patches a side (naver-ai/rope-vit).
Rope axial(const ExampleSize& size) {
  Rope rope = rope_of(size);
  rope.base = 100;
  rope.axes = RopeAxes::axial({size.dim / 4, size.dim / 2 - size.dim / 4});
  return rope;
}

using Shared = std::shared_ptr<const RopeTable<double>>;

Specimen turned_by(const ExampleSize& size, const Shared& q, const Shared& k) {
  Specimen specimen{.options = size};
  specimen.turn_rows = [q, k](Side side, const Positions& at, View<const double, 4> x, View<double, 4> y,
                              const Executor& on) { rotate_to<double>(side == Side::query ? *q : *k, x, y, at, on); };
  specimen.held = static_cast<Index>(q->bytes() / sizeof(double));
  if (k != q) specimen.held += static_cast<Index>(k->bytes() / sizeof(double));
  return specimen;
}

/// change(frequencies, size) → the frequencies that the example turns by.
template <class Change>
auto example_of(Change change) {
  return [change](const ExampleSize& size, const Rope& rope) {
    const RopeFrequencies frequencies = change(resolve(rope, size.length), size);
    const auto table = std::make_shared<const RopeTable<double>>(frequencies, size.length);
    Specimen specimen = turned_by(size, table, table);
    specimen.frequencies = frequencies.inv_freq;
    specimen.parameters = std::ssize(rope.log_factors), specimen.held += specimen.parameters;
    specimen.own_numbers = specimen.parameters > 0;  // no seed draws what a spec states
    // Two axes are an image's. Of more, those of text are measured, whose tokens stand at one number on all of them.
    if (frequencies.axes == 2) specimen.grid = inspect::square_grid(size.length);
    return specimen;
  };
}

void name_ropes(EncodingDescriber<Rope> rope) {
  const auto plain = example_of([](RopeFrequencies f, const ExampleSize&) { return f; });
  const auto name = [&](const char* called, const char* title, const char* does, auto spec, const PaperSaid& paper) {
    rope.called(called, title, does, spec).published(paper).page("rope_scaling").example(plain);
  };
  const PaperSaid su = {"Su et al.", 2021, "arXiv 2104.09864"};
  name("rope", "RoPE", "turns pairs by position times frequency", scaled<NoScaling>, su);
  rope.page("rope").also({"rotary", "roformer"});
  name("rope_linear", "RoPE, position interpolation", "RoPE with all frequencies divided", scaled<LinearScaling>,
       {"Chen et al.", 2023, "arXiv 2306.15595"});
  rope.also({"position_interpolation"});
  name("rope_ntk", "RoPE, NTK-aware", "RoPE with a larger base", scaled<NtkScaling>, {"bloc97", 2023, "r/LocalLLaMA"});
  name("rope_dynamic_ntk", "RoPE, dynamic NTK", "RoPE with a base that grows with the sequence",
       scaled<DynamicNtkScaling>, {"emozilla", 2023, "r/LocalLLaMA"});
  name("rope_alpha", "RoPE, NTK with alpha", "RoPE with a larger base, as given", scaled<AlphaScaling>,
       {"Hunyuan team", 2024, "arXiv 2411.02265"});
  name("rope_ntk_by_parts", "RoPE, NTK by parts", "RoPE with slow pairs divided, fast ones kept",
       scaled<NtkByPartsScaling>, {"bloc97", 2023, "jquesnelle/yarn"});
  name("rope_yarn", "RoPE, YaRN", "RoPE with slow pairs divided and logits made larger", scaled<YarnScaling>,
       {"Peng et al.", 2023, "arXiv 2309.00071"});
  rope.also({"yarn"});
  name("rope_deepseek_yarn", "RoPE, DeepSeek's YaRN", "YaRN with a factor of the softmax scale",
       scaled<DeepseekYarnScaling>, {"DeepSeek-AI", 2024, "arXiv 2405.04434"});
  name("rope_longrope", "RoPE, LongRoPE", "RoPE with a divisor for each pair", scaled<LongRopeScaling>,
       {"Ding et al.", 2024, "arXiv 2402.13753"});
  rope.also({"longrope"});
  name("rope_llama3", "RoPE, Llama 3.1", "RoPE with slow pairs divided, by wavelength", scaled<Llama3Scaling>,
       {"Llama team", 2024, "arXiv 2407.21783"});
  name("rope_proportional", "RoPE, proportional", "RoPE on a quarter of the frequencies", scaled<ProportionalScaling>,
       {"Barbero et al.", 2024, "arXiv 2410.06205"});
  rope.also({"p_rope"});
  name("rope_axial", "RoPE on two axes", "RoPE with half of the pairs for each coordinate", axial,
       {"Heo et al.", 2024, "arXiv 2403.13298"});
  rope.page("rope_axes").also({"axial_rope", "rope_2d"});
  rope.called("rope_high_frequency", "RoPE, high frequencies only", "RoPE without pairs that complete no turn",
              scaled<NoScaling>)
      .published({"Chen et al.", 2024, "arXiv 2410.21216"})
      .page("hope")
      .example(example_of(
          [](RopeFrequencies f, const ExampleSize& size) { return high_frequency(std::move(f), size.length); }))
      .called("rope_negative_angle", "RoPE, negative angle", "RoPE that turns the other way", scaled<NoScaling>)
      .published({"Karpathy", 2025, "karpathy/nanochat"})
      .page("rope_variants")
      .example(example_of([](RopeFrequencies f, const ExampleSize&) { return negative_angle(std::move(f)); }));
}

void describe_xpos(Describer& to) {
  to.encoding_with<Xpos, TableLength>(
        "XposRows", "xPos as an encoding of queries and keys.", {},
        []<class A>(const Xpos& xpos, const TableLength& kept) {
          return WithTable<XposTable<A>, XposRows<A>>(
              std::make_shared<const XposTable<A>>(xpos, kept.length, as_long_as(xpos.rope, kept.length)));
        })
      .by_hand()
      .causal()
      .called("xpos", "xPos", "RoPE whose pairs shrink with distance",
              [](const ExampleSize& size) { return Xpos{.rope = rope_of(size)}; })
      .published({"Sun et al.", 2022, "arXiv 2212.10554"})
      .page("xpos")
      .example([](const ExampleSize& size, const Xpos& xpos) {
        const auto tables =
            std::make_shared<const XposTable<double>>(xpos, size.length, as_long_as(xpos.rope, size.length));
        Specimen specimen = turned_by(size, Shared(tables, &tables->q), Shared(tables, &tables->k));
        specimen.causal = true;
        return specimen;
      });
}

}  // namespace

void describe_rope(Describer& to) {
  to.home("rope", {"Su et al.", 2021, "arXiv 2104.09864"});
  describe_simple_scalings(to);
  describe_yarn(to);
  describe_other_scalings(to);
  describe_geometry(to);
  describe_spec(to);
  to.settings("TableLength", TableLength{})
      .member("length", &TableLength::length, "Positions whose cos and sin are kept.");
  name_ropes(to.encoding_with<Rope, TableLength>("RotaryRows", "RoPE as an encoding of queries and keys.", {},
                                                 []<class A>(const Rope& rope, const TableLength& kept) {
                                                   return WithTable<RopeTable<A>, RotaryRows<A>>(
                                                       table_of<A>(rope, kept.length));
                                                 })
                 .by_hand());
  describe_xpos(to);
}

}  // namespace bearing
