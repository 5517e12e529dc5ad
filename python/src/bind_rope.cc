// RoPE as a config states it: specs, scalings, axes, and the numbers that they come to.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/rope_variants.hpp>
#include <bearing/encodings/xpos.hpp>
#include <bearing/io.hpp>
#include <bearing/rope_report.hpp>

#include "bind.hpp"
#include "encodings.hpp"
#include "records.hpp"
#include "rope_tables.hpp"
#include "specs.hpp"

namespace bearing::python {

template <>
struct Words<RotaryPart::Where> {
  static constexpr std::array<Word<RotaryPart::Where>, 3> words{
      {{RotaryPart::Where::first, "first"}, {RotaryPart::Where::last, "last"}, {RotaryPart::Where::window, "window"}}};
};
template <>
struct Words<RopeAxes::Order> {
  static constexpr std::array<Word<RopeAxes::Order>, 3> words{{{RopeAxes::Order::contiguous, "contiguous"},
                                                               {RopeAxes::Order::interleaved, "interleaved"},
                                                               {RopeAxes::Order::listed, "listed"}}};
};
template <>
struct Words<RopeAxes::Frequencies> {
  static constexpr std::array<Word<RopeAxes::Frequencies>, 3> words{{{RopeAxes::Frequencies::shared, "shared"},
                                                                     {RopeAxes::Frequencies::restarted, "restarted"},
                                                                     {RopeAxes::Frequencies::strided, "strided"}}};
};

namespace {

std::vector<Index> pairs_of(nb::handle from) { return Member<std::vector<Index>>::from(from, {"RopeAxes", "pairs"}); }

void bind_axes(nb::module_& m) {
  spec(m, "RotaryPart",
       "Which part of the head turns: rotary_dim dimensions, the first ones, the last ones (MLA), or a window from\n"
       "`begin` on. The others pass through.",
       RotaryPart{}, Field{"where", &RotaryPart::where}, Field{"begin", &RotaryPart::begin});
  const auto pairs = [](RopeAxes (*make)(std::vector<Index>)) {
    return [make](nb::handle given) { return make(pairs_of(given)); };
  };
  spec(m, "RopeAxes",
       "Which coordinate of a token's position turns which pair, for positions [axes, batch, time].\n\n"
       "Use the named forms: sections (M-RoPE of Qwen2-VL), interleaved (Qwen3-VL), axial (2-D: Qwen2-VL's vision\n"
       "tower, DINOv3), strided (Pixtral), listed (any order). RopeAxes() is one axis for every pair.",
       RopeAxes{}, Field{"pairs", &RopeAxes::pairs}, Field{"order", &RopeAxes::order},
       Field{"frequencies", &RopeAxes::frequencies})
      .def_static("sections", pairs(RopeAxes::sections), nb::arg("pairs"),
                  nb::sig("def sections(pairs: Sequence[int]) -> RopeAxes"),
                  "M-RoPE (Wang et al. 2024, arXiv 2409.12191): axis a turns the next pairs[a] pairs; the frequencies\n"
                  "run on over the whole head.")
      .def_static("interleaved", pairs(RopeAxes::interleaved), nb::arg("pairs"),
                  nb::sig("def interleaved(pairs: Sequence[int]) -> RopeAxes"),
                  "M-RoPE of Qwen3-VL: axis a ≥ 1 takes the pairs a, a + A, a + 2A, … below A·pairs[a]; axis 0 the "
                  "rest.")
      .def_static("axial", pairs(RopeAxes::axial), nb::arg("pairs"),
                  nb::sig("def axial(pairs: Sequence[int]) -> RopeAxes"),
                  "As sections, but each axis starts its frequencies afresh.")
      .def_static("strided", pairs(RopeAxes::strided), nb::arg("pairs"),
                  nb::sig("def strided(pairs: Sequence[int]) -> RopeAxes"),
                  "As sections, but axis a takes every A-th of the head's frequencies, starting with the a-th.")
      .def_static("listed", pairs(RopeAxes::listed), nb::arg("axis_of_pair"),
                  nb::sig("def listed(axis_of_pair: Sequence[int]) -> RopeAxes"),
                  "The axis of each pair, in any order.");
}

void bind_scalings(nb::module_& m) {
  spec(m, "NoScaling", "RoPE with the frequencies that it was trained with.", NoScaling{});
  spec(m, "LinearScaling",
       "Position interpolation (Chen et al. 2023, arXiv 2306.15595): every frequency is divided by the factor.",
       LinearScaling{}, Field{"factor", &LinearScaling::factor});
  spec(m, "NtkScaling",
       "NTK-aware, static: base · factor^(r/(r − 2)) with r = rotary_dim, which leaves the first pair's frequency\n"
       "alone and divides the last one's by the factor.",
       NtkScaling{}, Field{"factor", &NtkScaling::factor});
  spec(m, "DynamicNtkScaling",
       "NTK-aware with a base that grows with the sequence: keys cached at one length must be rebased when it grows.\n"
       "trained_length in tokens.",
       DynamicNtkScaling{}, Field{"factor", &DynamicNtkScaling::factor},
       Field{"trained_length", &DynamicNtkScaling::trained_length});
  spec(m, "AlphaScaling", "NTK with a given alpha (Hunyuan): base · alpha^(r/(r − 2)), at every length.",
       AlphaScaling{}, Field{"alpha", &AlphaScaling::alpha});
  spec(m, "NtkByPartsScaling",
       "NTK by parts, YaRN's forerunner: pairs go over from linear interpolation to NTK where they turn beta_slow to\n"
       "beta_fast times within trained_length tokens, and to the trained frequencies where gamma_slow to gamma_fast\n"
       "times.",
       NtkByPartsScaling{}, Field{"factor", &NtkByPartsScaling::factor},
       Field{"trained_length", &NtkByPartsScaling::trained_length}, Field{"beta_slow", &NtkByPartsScaling::beta_slow},
       Field{"beta_fast", &NtkByPartsScaling::beta_fast}, Field{"gamma_slow", &NtkByPartsScaling::gamma_slow},
       Field{"gamma_fast", &NtkByPartsScaling::gamma_fast});
  spec(m, "YarnScaling",
       "YaRN (Peng et al. 2023, arXiv 2309.00071): pairs of more than beta_fast turns within the trained length stay,\n"
       "those of fewer than beta_slow are divided by the factor, a ramp between. cos and sin are multiplied by the\n"
       "attention factor.",
       YarnScaling{}, Field{"factor", &YarnScaling::factor}, Field{"trained_length", &YarnScaling::trained_length},
       Field{"beta_fast", &YarnScaling::beta_fast}, Field{"beta_slow", &YarnScaling::beta_slow},
       Field{"truncate", &YarnScaling::truncate}, Field{"attention_factor", &YarnScaling::attention_factor},
       Field{"mscale", &YarnScaling::mscale}, Field{"mscale_all_dim", &YarnScaling::mscale_all_dim},
       Field{"mscale_slope", &YarnScaling::mscale_slope});
  spec(m, "DeepseekYarnScaling",
       "YaRN as DeepSeek has it: attention must multiply its softmax scale by\n"
       "RopeFrequencies.softmax_scale_factor.",
       DeepseekYarnScaling{}, Field{"factor", &DeepseekYarnScaling::factor},
       Field{"trained_length", &DeepseekYarnScaling::trained_length},
       Field{"beta_fast", &DeepseekYarnScaling::beta_fast}, Field{"beta_slow", &DeepseekYarnScaling::beta_slow},
       Field{"mscale", &DeepseekYarnScaling::mscale}, Field{"mscale_all_dim", &DeepseekYarnScaling::mscale_all_dim},
       Field{"attention_factor", &DeepseekYarnScaling::attention_factor});
  spec(m, "LongRopeScaling",
       "LongRoPE (Ding et al. 2024, arXiv 2402.13753; Phi-3): each frequency divided by its own factor, of the long\n"
       "list when the sequence is longer than the trained length, else of the short one.",
       LongRopeScaling{}, Field{"short_factor", &LongRopeScaling::short_factor},
       Field{"long_factor", &LongRopeScaling::long_factor}, Field{"trained_length", &LongRopeScaling::trained_length},
       Field{"factor", &LongRopeScaling::factor}, Field{"attention_factor", &LongRopeScaling::attention_factor},
       Field{"short_mscale", &LongRopeScaling::short_mscale}, Field{"long_mscale", &LongRopeScaling::long_mscale});
  spec(m, "Llama3Scaling",
       "Llama 3.1: wavelengths below trained_length/high_freq_factor stay, those above trained_length/low_freq_factor\n"
       "are multiplied by the factor, a blend between.",
       Llama3Scaling{}, Field{"factor", &Llama3Scaling::factor},
       Field{"low_freq_factor", &Llama3Scaling::low_freq_factor},
       Field{"high_freq_factor", &Llama3Scaling::high_freq_factor},
       Field{"trained_length", &Llama3Scaling::trained_length});
  spec(m, "ProportionalScaling",
       "p-RoPE (Barbero et al. 2024, arXiv 2410.06205; Gemma 4): only the first fraction of the pairs turns.",
       ProportionalScaling{}, Field{"fraction", &ProportionalScaling::fraction},
       Field{"factor", &ProportionalScaling::factor});
  spec(m, "ExplicitFrequencies", "The frequencies themselves, radians per token, one per pair.", ExplicitFrequencies{},
       Field{"inv_freq", &ExplicitFrequencies::inv_freq});
  spec(m, "FrequencyDivisors", "Each frequency divided by its own number (ggml's freq_factors).", FrequencyDivisors{},
       Field{"divisors", &FrequencyDivisors::divisors});
  m.def(
      "scaling_name",
      [](nb::handle scaling) {
        return scaling_name(Member<RopeScaling>::from(scaling, {"scaling_name", "scaling"}));
      },
      nb::arg("scaling").none(), "The name that Hugging Face's files use where there is one, else bearing's own.");
}

/// The members of the struct, in their order; enumerations as their words.
RopeFrequencies frequencies_from(Index head_dim, Index rotary_dim, Index begin, nb::handle pairing, nb::handle angles,
                                 double attention_factor, double softmax_scale_factor, Index axes,
                                 std::vector<double> inv_freq, std::vector<double> inv_freq_rest,
                                 std::vector<Index> axis, nb::handle change, std::vector<double> quarter_turns) {
  const char* owner = "RopeFrequencies";
  return {head_dim,
          rotary_dim,
          begin,
          enum_of<Pairing>(pairing, {owner, "pairing"}),
          enum_of<Angles>(angles, {owner, "angles"}),
          attention_factor,
          softmax_scale_factor,
          axes,
          std::move(inv_freq),
          std::move(inv_freq_rest),
          std::move(axis),
          Member<std::vector<PairChange>>::from(change, {owner, "change"}),
          std::move(quarter_turns)};
}

}  // namespace

template <>
struct Pickled<RopeFrequencies> {
  static nb::tuple reduce(const RopeFrequencies& f) {
    return made_by("frequencies", f.head_dim, f.rotary_dim, f.begin, Member<Pairing>::to(f.pairing),
                   Member<Angles>::to(f.angles), f.attention_factor, f.softmax_scale_factor, f.axes, f.inv_freq,
                   f.inv_freq_rest, f.axis, Member<std::vector<PairChange>>::to(f.change), f.quarter_turns);
  }
};

namespace {

void bind_frequencies(nb::module_& m) {
  using F = RopeFrequencies;
  m.def("_frequencies", frequencies_from, nb::sig("def _frequencies(*members: Any) -> RopeFrequencies"));
  record<F>(
      m, "RopeFrequencies", "A rotary encoding with its numbers, at one sequence length: what resolve() returns.",
      {{"head_dim", "int", [](const F& f) -> nb::object { return nb::int_(f.head_dim); }, "Dimensions of a head."},
       {"rotary_dim", "int", [](const F& f) -> nb::object { return nb::int_(f.rotary_dim); }, "How many of them turn."},
       {"begin", "int", [](const F& f) -> nb::object { return nb::int_(f.begin); }, "The first one that turns."},
       {"pairing", "str", [](const F& f) { return Member<Pairing>::to(f.pairing); }, "'half' or 'interleaved'."},
       {"angles", "str", [](const F& f) { return Member<Angles>::to(f.angles); }, "'exact' or 'as_float32'."},
       {"attention_factor", "float", [](const F& f) -> nb::object { return nb::float_(f.attention_factor); },
        "Multiplies cos and sin, so logits by its square."},
       {"softmax_scale_factor", "float", [](const F& f) -> nb::object { return nb::float_(f.softmax_scale_factor); },
        "For attention to multiply its softmax scale with."},
       {"axes", "int", [](const F& f) -> nb::object { return nb::int_(f.axes); },
        "How many coordinates a position has."},
       {"inv_freq", "Float64Array",
        [](const F& f) { return numpy_array(f.inv_freq, {static_cast<Index>(f.inv_freq.size())}); },
        "[pairs] radians per token, rounded to nearest."},
       {"axis", "tuple[int, ...]", [](const F& f) { return Member<std::vector<Index>>::to(f.axis); },
        "[pairs] which coordinate turns the pair."},
       {"change", "tuple[str, ...]", [](const F& f) { return Member<std::vector<PairChange>>::to(f.change); },
        "[pairs] 'kept', 'blended' or 'scaled' by the scaling."},
       {"wavelengths", "Float64Array",
        [](const F& f) { return numpy_array(wavelengths(f), {static_cast<Index>(f.inv_freq.size())}); },
        "[pairs] tokens that a pair takes for one turn; inf for one that does not turn."}});
  m.def(
      "resolve",
      [](const Rope& rope, Index seq_len, nb::handle angles) {
        return resolve(rope, seq_len, enum_of<Angles>(angles, {"resolve", "angles"}));
      },
      nb::arg("rope"), nb::arg("seq_len") = 0, nb::arg("angles") = "exact",
      nb::sig("def resolve(rope: Rope, seq_len: int = 0, angles: Literal['exact', 'as_float32'] = 'exact') -> "
              "RopeFrequencies"),
      "Works out the numbers of a rotary encoding.\n\n"
      "seq_len: tokens that the frequencies must serve; only dynamic NTK and LongRoPE depend on it, 0: the trained\n"
      "length. angles: 'exact', or 'as_float32' for Hugging Face's float32 order, which models were trained with.\n"
      "Raises ShapeError for a spec that contradicts itself, RangeError for a number that cannot be.");
  m.def(
      "resolve_explicit",
      [](const Rope& rope, nb::handle inv_freq, double attention_factor) {
        const auto values = Member<std::vector<double>>::from(inv_freq, {"resolve_explicit", "inv_freq"});
        return resolve_explicit(rope, View<const double, 1>{values.data(), {static_cast<Index>(values.size())}, {1}},
                                attention_factor);
      },
      nb::arg("rope"), nb::arg("inv_freq").none(), nb::arg("attention_factor") = 1.0,
      nb::sig("def resolve_explicit(rope: Rope, inv_freq: Sequence[float] | ArrayLike, attention_factor: float = 1.0) "
              "-> RopeFrequencies"),
      "The same for frequencies that are given, [pairs], radians per token.");
  m.def(
      "high_frequency",
      [](nb::handle frequencies, Index trained_length) {
        return high_frequency(frequencies_of(frequencies, {"high_frequency", "frequencies"}), trained_length);
      },
      nb::arg("frequencies").none(), nb::arg("trained_length"),
      nb::sig("def high_frequency(frequencies: RopeFrequencies | RopeTable | Rope, trained_length: int) -> "
              "RopeFrequencies"),
      "High-frequency RoPE (Chen et al. 2024, arXiv 2410.21216): pairs that complete no turn within the trained\n"
      "length, in tokens, do not turn at all.");
  m.def(
      "negative_angle",
      [](nb::handle frequencies) {
        return negative_angle(frequencies_of(frequencies, {"negative_angle", "frequencies"}));
      },
      nb::arg("frequencies").none(),
      nb::sig("def negative_angle(frequencies: RopeFrequencies | RopeTable | Rope) -> RopeFrequencies"),
      "RoPE that turns the other way, as NanoChat's models do.");
}

}  // namespace

RopeFrequencies frequencies_of(nb::handle from, const Argument& argument) {
  if (nb::isinstance<RopeFrequencies>(from)) return nb::cast<const RopeFrequencies&>(from);
  if (nb::isinstance<Table>(from)) return nb::cast<const Table&>(from).frequencies();
  if (nb::isinstance<Rope>(from)) return resolve(nb::cast<const Rope&>(from));
  argument.fail("a RopeFrequencies, RopeTable or Rope", nb::cast<std::string>(nb::repr(from)));
}

void bind_rope(nb::module_& m) {
  bind_axes(m);
  bind_scalings(m);
  spec(
      m, "Rope",
      "Rotary position encoding (Su et al. 2021, arXiv 2104.09864), as a paper or a model's config states it.\n\n"
      "Each pair (u, v) of a query's or key's head is turned by the token's position p times the pair's frequency "
      "θ,\n\n"
      "    (u, v) ← a·(u cos pθ − v sin pθ, u sin pθ + v cos pθ)      θ_i = base^(−2i/rotary_dim) radians per token\n\n"
      "so that the product of a query at m with a key at n depends on n − m alone. a is 1 but for YaRN and "
      "LongRoPE.\n\n"
      "    rope = bearing.Rope(head_dim=128, base=500_000, pairing='half')\n"
      "    rope = bearing.Rope.from_config('config.json')\n"
      "    table = bearing.RopeTable(rope, 8192)         # cos and sin, exact\n"
      "    bearing.rotate(table, q, k, None)             # in place; q, k [batch, heads, time, head_dim]\n\n"
      "head_dim: dimensions of a head. rotary_dim: how many of them turn, even; 0: all. base: rope_theta.\n"
      "pairing: which two elements turn together, 'half' (i, i + r/2: Hugging Face's rotate_half) or 'interleaved'\n"
      "(2i, 2i + 1: GPT-J, Meta's Llama weights); there is no default, a wrong guess would be silent. scaling: how\n"
      "the frequencies are stretched past the trained length. part: where in the head the turned dimensions lie.\n"
      "axes: for positions with several coordinates. attention_factor: a, times what the scaling gives of its own.\n\n"
      "Immutable; compares, hashes, prints itself, goes to and from dictionaries and JSON.",
      Rope{.pairing = Pairing::half}, Field{"head_dim", &Rope::head_dim}, Field{"rotary_dim", &Rope::rotary_dim},
      Field{"base", &Rope::base}, Field{"pairing", &Rope::pairing}, Field{"scaling", &Rope::scaling},
      Field{"part", &Rope::part}, Field{"axes", &Rope::axes}, Field{"attention_factor", &Rope::attention_factor})
      .def_static(
          "from_config", [](nb::handle config, std::optional<Index> layer) { return rope_from_config(config, layer); },
          nb::arg("config").none(), nb::arg("layer") = nb::none(),
          nb::sig("def from_config(config: ConfigSource, layer: int | None = None) -> Rope"),
          "The rotary encoding of a Hugging Face model: config is the path of a config.json, its members in a\n"
          "dictionary, or transformers' own config object.\n\n"
          "layer: which layer's; None: that of all layers which have one. Raises ConfigError for a file that cannot "
          "be\n"
          "read, for a model without a rotary encoding, or one that has several different ones.")
      .def(
          "to_json", [](const Rope& self) { return to_json(self); },
          "The spec as JSON, in the form that `bearing rotate --rope` takes.")
      .def_static(
          "from_json", [](const std::string& text) { return parse_rope(text); }, nb::arg("text"),
          "The spec that to_json() wrote.");
  spec(m, "Xpos",
       "xPos (Sun et al. 2022, arXiv 2212.10554): RoPE whose pairs also shrink with distance. For causal attention.\n\n"
       "    q at m: ζ_i^((m − centre)/scale_base) R(mθ_i) q,   k at n: ζ_i^(−(n − centre)/scale_base) R(nθ_i) k\n\n"
       "with ζ_i = (2i/r + gamma)/(1 + gamma). centre in tokens: state one and keep it, so that cached keys fit.",
       Xpos{.rope = {.pairing = Pairing::half}}, Field{"rope", &Xpos::rope}, Field{"scale_base", &Xpos::scale_base},
       Field{"gamma", &Xpos::gamma}, Field{"centre", &Xpos::centre});
  bind_frequencies(m);
  bind_rope_tables(m);
  bind_rotations(m);
}

}  // namespace bearing::python
