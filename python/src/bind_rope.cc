// RoPE as a config states it: specs, scalings, axes, and the numbers that they come to.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <bearing/encodings/rope.hpp>
#include <bearing/encodings/rope_variants.hpp>
#include <bearing/encodings/xpos.hpp>
#include <bearing/io.hpp>
#include <bearing/rope_report.hpp>

#include "bind.hpp"
#include "classes.hpp"
#include "encodings.hpp"
#include "records.hpp"
#include "rope_tables.hpp"
#include "specs.hpp"

namespace bearing::python {

namespace {

/// The members of the struct, in their order; enumerations as their words.
RopeFrequencies frequencies_from(Index head_dim, Index rotary_dim, Index begin, nb::handle pairing, nb::handle angles,
                                 double attention_factor, double softmax_scale_factor, Index axes,
                                 std::vector<double> inv_freq, std::vector<double> inv_freq_rest,
                                 std::vector<Index> axis, nb::handle change, std::vector<double> quarter_turns,
                                 std::vector<Index> blocks) {
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
          std::move(quarter_turns),
          std::move(blocks)};
}

}  // namespace

template <>
struct Pickled<RopeFrequencies> {
  static nb::tuple reduce(const RopeFrequencies& f) {
    return made_by("frequencies", f.head_dim, f.rotary_dim, f.begin, Member<Pairing>::to(f.pairing),
                   Member<Angles>::to(f.angles), f.attention_factor, f.softmax_scale_factor, f.axes, f.inv_freq,
                   f.inv_freq_rest, f.axis, Member<std::vector<PairChange>>::to(f.change), f.quarter_turns, f.blocks);
  }
};

namespace {

void bind_frequencies(nb::module_& m) {
  using F = RopeFrequencies;
  m.def("_frequencies", frequencies_from, nb::sig("def _frequencies(*members: Any) -> RopeFrequencies"));
  record<F>(
      m, "RopeFrequencies", "A rotary encoding with its numbers, at one sequence length. resolve() returns it.",
      {{"head_dim", "int", [](const F& f) -> nb::object { return nb::int_(f.head_dim); }, "Dimensions of a head."},
       {"rotary_dim", "int", [](const F& f) -> nb::object { return nb::int_(f.rotary_dim); },
        "How many dimensions of a head turn."},
       {"begin", "int", [](const F& f) -> nb::object { return nb::int_(f.begin); }, "The first dimension that turns."},
       {"pairing", "str", [](const F& f) { return Member<Pairing>::to(f.pairing); }, "'half' or 'interleaved'."},
       {"angles", "str", [](const F& f) { return Member<Angles>::to(f.angles); }, "'exact' or 'as_float32'."},
       {"attention_factor", "float", [](const F& f) -> nb::object { return nb::float_(f.attention_factor); },
        "Multiplies cos and sin, and thereby logits by its square."},
       {"softmax_scale_factor", "float", [](const F& f) -> nb::object { return nb::float_(f.softmax_scale_factor); },
        "Attention must multiply its softmax scale by it."},
       {"axes", "int", [](const F& f) -> nb::object { return nb::int_(f.axes); },
        "How many coordinates a position has."},
       {"inv_freq", "Float64Array",
        [](const F& f) { return numpy_array(f.inv_freq, {static_cast<Index>(f.inv_freq.size())}); },
        "[pairs]: radians per token, rounded to nearest."},
       {"axis", "tuple[int, ...]", [](const F& f) { return Member<std::vector<Index>>::to(f.axis); },
        "[pairs]: which coordinate of a position turns the pair."},
       {"change", "tuple[str, ...]", [](const F& f) { return Member<std::vector<PairChange>>::to(f.change); },
        "[pairs]: what the scaling does to the pair: 'kept', 'blended' or 'scaled'."},
       {"blocks", "tuple[int, ...]", [](const F& f) { return Member<std::vector<Index>>::to(f.blocks); },
        "Pairs of each block that half pairing halves by itself; none if it halves the whole."},
       {"wavelengths", "Float64Array",
        [](const F& f) { return numpy_array(wavelengths(f), {static_cast<Index>(f.inv_freq.size())}); },
        "[pairs]: how many tokens a pair takes for one turn; inf for a pair that does not turn."}});
  m.def(
      "resolve",
      [](const Rope& rope, Index seq_len, nb::handle angles) {
        return resolve(rope, seq_len, enum_of<Angles>(angles, {"resolve", "angles"}));
      },
      nb::arg("rope"), nb::arg("seq_len") = 0, nb::arg("angles") = "exact",
      nb::sig("def resolve(rope: Rope, seq_len: int = 0, angles: Literal['exact', 'as_float32'] = 'exact') -> "
              "RopeFrequencies"),
      "Works out the numbers of a rotary encoding.\n\n"
      "rope: the spec.\n"
      "seq_len: how many tokens the frequencies must serve; 0 for the trained length. Only dynamic NTK and LongRoPE "
      "depend on\n"
      "    it.\n"
      "angles: 'exact', or 'as_float32' for Hugging Face's float32 order of operations, which models were trained "
      "with.\n\n"
      "Raises ShapeError for a spec that contradicts itself, RangeError for a number out of range.");
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
      "Makes a rotary encoding with given frequencies. The spec's base and scaling are not used.\n\n"
      "rope: the spec.\n"
      "inv_freq [pairs]: the frequencies in radians per token.\n"
      "attention_factor: multiplies cos and sin.\n\n"
      "Raises as resolve(), and ShapeError unless there is one frequency for each pair.");
  m.def(
      "high_frequency",
      [](nb::handle frequencies, Index trained_length) {
        return high_frequency(turning_frequencies_of(frequencies, {"high_frequency", "frequencies"}), trained_length);
      },
      nb::arg("frequencies").none(), nb::arg("trained_length"),
      nb::sig("def high_frequency(frequencies: RopeFrequencies | RopeTable | Rope, trained_length: int) -> "
              "RopeFrequencies"),
      "Makes high-frequency RoPE (Chen et al. 2024, arXiv 2410.21216): pairs that complete no turn in training do not "
      "turn.\n\n"
      "trained_length: how many tokens the model was trained for.\n\n"
      "Raises RangeError for a trained_length below 1.");
  m.def(
      "negative_angle",
      [](nb::handle frequencies) {
        return negative_angle(turning_frequencies_of(frequencies, {"negative_angle", "frequencies"}));
      },
      nb::arg("frequencies").none(),
      nb::sig("def negative_angle(frequencies: RopeFrequencies | RopeTable | Rope) -> RopeFrequencies"),
      "Makes RoPE that turns the other way, as NanoChat's models do.");
}

}  // namespace

RopeScaling scaling_of(nb::handle from, const char* function) {
  RopeScaling scaling;
  take_spec(from, {function, "scaling"}, scaling);
  return scaling;
}

RopeFrequencies frequencies_of(nb::handle from, const Argument& argument) {
  if (nb::isinstance<RopeFrequencies>(from)) return nb::cast<const RopeFrequencies&>(from);
  if (nb::isinstance<Table>(from)) return nb::cast<const Table&>(from).frequencies();
  if (const auto* rope = spec_as<Rope>(from)) return resolve(*rope);
  argument.fail("a RopeFrequencies, a RopeTable or a Rope", nb::cast<std::string>(nb::repr(from)));
}

void check_fixed(nb::handle given, const std::string& argument, const std::string& others, const std::string& way) {
  const auto* rope = spec_as<Rope>(given);
  if (rope == nullptr || !depends_on_length(rope->scaling)) return;
  const std::string text = argument + ": must be " + others +
                           "a Rope whose frequencies are the same at every length, got " +
                           nb::cast<std::string>(nb::repr(given)) + way;
  throw nb::type_error(text.c_str());
}

RopeFrequencies turning_frequencies_of(nb::handle from, const Argument& argument) {
  check_fixed(from, std::string("[") + argument.function + "] " + argument.name, "a RopeFrequencies, a RopeTable, or ",
              "; resolve(rope, seq_len) makes the frequencies of a length");
  return frequencies_of(from, argument);
}

void bind_rope(nb::module_& m) {
  m.def("_check_fixed", check_fixed, nb::arg("rope"), nb::arg("argument"), nb::arg("others") = "", nb::arg("way") = "",
        nb::sig("def _check_fixed(rope: Rope, argument: str, others: str = '', way: str = '') -> None"),
        "Raises TypeError for a Rope whose frequencies depend on the length, in the name of an argument; others: what "
        "else will do, way: how to say the length.");
  m.def(
      "_turning_frequencies",
      [](nb::handle from, const char* function, const char* name) {
        return turning_frequencies_of(from, {function, name});
      },
      nb::arg("frequencies"), nb::arg("function"), nb::arg("name"),
      nb::sig("def _turning_frequencies(frequencies: RopeFrequencies | RopeTable | Rope, function: str, name: str) -> "
              "RopeFrequencies"),
      "Returns the frequencies that keys turn by.");
  const nb::handle rope = class_of_records(typeid(Rope));
  def_method(
      rope, "to_json",
      [](const Spec& self) {
        check_self(self.record, std::array{std::type_index(typeid(Rope))}, "to_json");
        return to_json(*self.record.as<Rope>());
      },
      nb::sig("def to_json(self) -> str"), "Returns the spec as JSON, in the form that `bearing rotate --rope` takes.");
  nb::cpp_function(
      [](nb::handle config, std::optional<Index> layer) { return rope_from_config(config, layer); }, nb::scope(rope),
      nb::name("from_config"), nb::arg("config").none(), nb::arg("layer") = nb::none(),
      nb::sig("def from_config(config: ConfigSource, layer: int | None = None) -> Rope"),
      "Makes the rotary encoding of a Hugging Face model.\n\n"
      "config: the path of a config.json, its members in a dictionary, or transformers' own config object.\n"
      "layer: the layer whose encoding it is; None if all rotary layers have the same.\n\n"
      "Raises ConfigError for a file that cannot be read, for a model without a rotary encoding, and for one with "
      "several\n"
      "different ones if no layer is given.");
  nb::cpp_function([](const std::string& text) { return parse_rope(text); }, nb::scope(rope), nb::name("from_json"),
                   nb::arg("text"), nb::sig("def from_json(text: str) -> Rope"),
                   "Makes the spec again from what to_json() returned. Raises ConfigError for other text.");
  m.def(
      "scaling_name", [](nb::handle scaling) { return scaling_name(scaling_of(scaling, "scaling_name")); },
      nb::arg("scaling").none(), nb::sig("def scaling_name(scaling: Spec) -> str"),
      "Returns a scaling's name: the one in Hugging Face's files if there is one, else bearing's own.");
  bind_frequencies(m);
  bind_rope_tables(m);
  bind_rotations(m);
}

}  // namespace bearing::python
