// Biases by distance and what computes them.

#include <nanobind/stl/vector.h>

#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/dense_bias.hpp>
#include <bearing/encodings/fire.hpp>
#include <bearing/encodings/forgetting.hpp>
#include <bearing/encodings/kerple.hpp>
#include <bearing/encodings/sandwich.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/error.hpp>

#include "bind.hpp"
#include "encodings.hpp"
#include "specs.hpp"

namespace bearing::python {

template <>
struct Words<T5Direction> {
  static constexpr std::array<Word<T5Direction>, 2> words{
      {{T5Direction::bidirectional, "bidirectional"}, {T5Direction::causal, "causal"}}};
};
template <>
struct Words<AlibiForm> {
  static constexpr std::array<Word<AlibiForm>, 2> words{
      {{AlibiForm::symmetric, "symmetric"}, {AlibiForm::causal, "causal"}}};
};
template <>
struct Words<KerpleForm> {
  static constexpr std::array<Word<KerpleForm>, 2> words{
      {{KerpleForm::logarithmic, "logarithmic"}, {KerpleForm::power, "power"}}};
};

namespace {

struct LearnedAlibi {
  AlibiForm form = AlibiForm::symmetric;
};

struct Past {
  Index past = 0;
};

/// Slopes come from a spec or from an array, one of them.
void check_slopes(const char* function, bool spec, bool slopes) {
  if (spec != slopes) return;
  throw ShapeError(std::string("[") + function + "] slopes: must be given, in a spec or as an array, got " +
                   (spec ? "both" : "neither"));
}

void bind_alibi(nb::module_& m) {
  spec(m, "Alibi",
       "ALiBi, attention with linear biases: a score loses in proportion to its distance, at its head's rate.\n\n"
       "    s_ij <- s_ij - slope_h |n - m|        slope_h = 2^(-8h/H), h = 1 ... H, for H a power of two\n\n"
       "slopes [heads], positive for decay: Alibi.published(heads) has those that models were trained with. form says\n"
       "what becomes of keys after the query: 'symmetric' ones lose like those before, 'causal' ones get 0.\n\n"
       "Press, Smith, Lewis 2022, arXiv 2108.12409.",
       Alibi{}, Field{"slopes", &Alibi::slopes}, Field{"form", &Alibi::form})
      .def_static(
          "published",
          [](Index heads, double bias_max, double times) { return Alibi::published(heads, bias_max, times); },
          nb::arg("heads"), nb::arg("bias_max") = 8.0, nb::arg("times") = 1.0,
          "The published slopes for a number of heads, a power of two or not.\n\n"
          "bias_max is the 8 in the exponent (MPT's alibi_bias_max); times multiplies all of them: Falcon adds its\n"
          "bias before the softmax scale, so that its slopes are these times that scale.");
  encoding<std::optional<Alibi>, 1>(
      m, "AlibiBias",
      "ALiBi as a bias by distance, with a spec's slopes or learned ones [heads].\n\n"
      "    s_ij <- s_ij - slope_h |n - m|        form='causal': slope_h min(n - m, 0)\n\n"
      "AlibiBias(Alibi.published(8)), or AlibiBias(slopes=array, form='causal'). Real positions too.\n\n"
      "Press, Smith, Lewis 2022, arXiv 2108.12409.",
      {{"slopes", 1, true}},
      []<class A>(const std::optional<Alibi>& alibi, const LearnedAlibi& learned, const Param<A, 1>& slopes) {
        check_slopes("AlibiBias", alibi.has_value(), slopes.value.data != nullptr);
        if (alibi && learned.form != LearnedAlibi{}.form && learned.form != alibi->form) {
          throw ConfigError("[AlibiBias] form: must be the spec's where one is given: spec.replace(form='causal')");
        }
        return alibi ? AlibiBias<A>(*alibi) : AlibiBias<A>(slopes, learned.form);
      },
      settings(LearnedAlibi{}, Field{"form", &LearnedAlibi::form}));
  encoding<std::optional<Alibi>, 1>(
      m, "AlibiShiftedBias",
      "ALiBi's row-shifted form, as BLOOM and MPT have it, with a spec's slopes or learned ones [heads].\n\n"
      "    s_ij <- s_ij + slope_h n\n\n"
      "It differs from the causal form by one number along a row, which softmax does not see, though the logarithms "
      "of\n"
      "its sums do. With left padding, give positions that count real tokens only.\n\n"
      "Press, Smith, Lewis 2022, arXiv 2108.12409.",
      {{"slopes", 1, true}}, []<class A>(const std::optional<Alibi>& alibi, const Param<A, 1>& slopes) {
        check_slopes("AlibiShiftedBias", alibi.has_value(), slopes.value.data != nullptr);
        return alibi ? AlibiShiftedBias<A>(*alibi) : AlibiShiftedBias<A>(slopes);
      });
}

void bind_t5(nb::module_& m) {
  spec(
      m, "T5",
      "T5's relative bias: distances fall into buckets, exact near the query and logarithmically wider further on.\n\n"
      "    s_ij <- s_ij + table[bucket(n - m), h]\n\n"
      "for a query at m, a key at n and head h, with a learned table [buckets, heads]: T5Bias.\n\n"
      "buckets: of both sides together (a config's relative_attention_num_buckets). max_distance: keys so many\n"
      "tokens away and further share the last bucket (relative_attention_max_distance). direction: 'bidirectional' in\n"
      "encoders, whose later half of the buckets is for keys after the query, 'causal' in decoders, where those share\n"
      "the bucket of distance 0 and are meant to be masked. No default: a wrong guess would be silent.\n\n"
      "T5 does not divide its scores by the root of dim: give attention() scale=1.\n\n"
      "    t5 = bearing.T5(direction='bidirectional')\n"
      "    out = bearing.attention(q, k, v, [bearing.T5Bias(t5, table)], mask='none', scale=1.0)\n\n"
      "Raffel et al. 2020, arXiv 1910.10683.",
      T5{.direction = T5Direction::bidirectional}, Field{"buckets", &T5::buckets},
      Field{"max_distance", &T5::max_distance}, Field{"direction", &T5::direction});
  encoding<T5, 2>(m, "T5Bias",
                  "T5's bias: table [buckets, heads], in most files called relative_attention_bias.weight.\n\n"
                  "    s_ij <- s_ij + table[bucket(n - m), h]\n\n"
                  "Positions are whole numbers. The first layer owns the table and all layers add it: add up their\n"
                  "gradients.\n\nRaffel et al. 2020, arXiv 1910.10683.",
                  {{"table", 2}}, []<class A>(const T5& t5, const Param<A, 2>& table) { return T5Bias<A>(t5, table); });
  m.def(
      "t5_thresholds", [](const T5& t5) { return t5_thresholds(t5); }, nb::arg("spec"),
      "The least |distance| of each bucket of one side, rising: buckets/2 numbers for both sides, buckets for one.");
  m.def(
      "t5_bucket", [](const T5& t5, Index distance) { return t5_bucket(t5, distance); }, nb::arg("spec"),
      nb::arg("distance"), "The bucket of a distance, key minus query.");
}

void bind_kerple(nb::module_& m) {
  spec(m, "Kerple",
       "KERPLE, kernelised relative positions: a score loses by a kernel of the distance with two learned numbers.\n\n"
       "    logarithmic   s_ij <- s_ij - r1_h ln(1 + r2_h |n - m|)\n"
       "    power         s_ij <- s_ij - r1_h |n - m|^r2_h              (ALiBi is r2 = 1)\n\n"
       "Chi, Fan, Ramadge, Rudnicky 2022, arXiv 2205.09921.",
       Kerple{KerpleForm::logarithmic}, Field{"form", &Kerple::form})
      .def_prop_ro_static(
          "least", [](nb::handle) { return Kerple::least; }, "Of r1 and r2, after an optimiser's step: 0.01.")
      .def_prop_ro_static(
          "most_power", [](nb::handle) { return Kerple::most_power; },
          "Of r2 in the power form: beyond 2 the kernel is not positive definite.");
  encoding<Kerple, 1, 1>(m, "KerpleBias",
                         "KERPLE as a bias by distance: r1, r2 [heads], positive. Real positions too.\n\n"
                         "    logarithmic   s_ij <- s_ij - r1_h ln(1 + r2_h |n - m|)\n"
                         "    power         s_ij <- s_ij - r1_h |n - m|^r2_h\n\n"
                         "Keeping parameters within Kerple.least and Kerple.most_power after an optimiser's step is "
                         "left to the caller.\n\n"
                         "Chi, Fan, Ramadge, Rudnicky 2022, arXiv 2205.09921.",
                         {{"r1", 1}, {"r2", 1}},
                         []<class A>(const Kerple& kerple, const Param<A, 1>& r1, const Param<A, 1>& r2) {
                           return KerpleBias<A>(kerple, r1, r2);
                         });
}

void bind_fire(nb::module_& m) {
  spec(m, "Fire",
       "FIRE, functional interpolation: a small network of the distance, squeezed into the length seen so far.\n\n"
       "    s_ij <- s_ij + f_h(psi(|m - n|) / (psi(max(m, L)) + eps)),   psi(d) = ln(|c d| + 1)\n"
       "    f_h(x) = out_bias_h + sum_u out_weight_hu max(hidden_weight_u x + hidden_bias_u, 0)\n"
       "    L = |multiplier threshold|\n\n"
       "c starts at Fire.initial_c, multiplier at Fire.initial_multiplier.\n\n"
       "Li, You, Guruganesh et al. 2023, arXiv 2310.04418.",
       Fire{}, Field{"mlp_width", &Fire::mlp_width}, Field{"threshold", &Fire::threshold}, Field{"eps", &Fire::eps})
      .def_prop_ro_static(
          "initial_c", [](nb::handle) { return Fire::initial_c; }, "Where c starts, as the authors have it: 0.1.")
      .def_prop_ro_static(
          "initial_multiplier", [](nb::handle) { return Fire::initial_multiplier; },
          "Where the threshold's multiplier starts: 1.");
  encoding<Fire, 1, 1, 1, 1, 2, 1>(
      m, "FireBias",
      "FIRE's bias. Depends on where the query stands, not on the distance alone; real positions too.\n\n"
      "    s_ij <- s_ij + f_h(psi(|m - n|) / (psi(max(m, L)) + eps)),   psi(d) = ln(|c d| + 1)\n\n"
      "c [1], multiplier [1], hidden_weight [mlp_width], hidden_bias [mlp_width], out_weight [heads, mlp_width],\n"
      "out_bias [heads].\n\nLi, You, Guruganesh et al. 2023, arXiv 2310.04418.",
      {{"c", 1}, {"multiplier", 1}, {"hidden_weight", 1}, {"hidden_bias", 1}, {"out_weight", 2}, {"out_bias", 1}},
      []<class A>(const Fire& fire, const Param<A, 1>& c, const Param<A, 1>& multiplier,
                  const Param<A, 1>& hidden_weight, const Param<A, 1>& hidden_bias, const Param<A, 2>& out_weight,
                  const Param<A, 1>& out_bias) {
        return FireBias<A>(fire, {c, multiplier, hidden_weight, hidden_bias, out_weight, out_bias});
      });
}

}  // namespace

void bind_biases(nb::module_& m) {
  bind_alibi(m);
  bind_t5(m);
  bind_kerple(m);
  bind_fire(m);

  spec(m, "Sandwich",
       "Sandwich: what sinusoidal encodings of query and key would contribute to each other's product.\n\n"
       "    s_ij <- s_ij + H/(8h) sum_i cos((n - m) base^(-2i/dim)),   i = 0 ... dim/2 - 1, h = 1 ... H\n\n"
       "dim is even, and need not be the model's.\n\nChi, Fan, Rudnicky, Ramadge 2023, arXiv 2212.10356.",
       Sandwich{}, Field{"heads", &Sandwich::heads}, Field{"dim", &Sandwich::dim}, Field{"base", &Sandwich::base});
  encoding<Sandwich>(m, "SandwichBias",
                     "Sandwich as a bias by distance; nothing to learn. Real positions too, whole ones much faster.\n\n"
                     "    s_ij <- s_ij + H/(8h) sum_i cos((n - m) base^(-2i/dim))\n\n"
                     "Chi, Fan, Rudnicky, Ramadge 2023, arXiv 2212.10356.",
                     {}, []<class A>(const Sandwich& sandwich) { return SandwichBias<A>(sandwich); });

  encoding<NoSpec, 3>(
      m, "ForgettingBias",
      "Forgetting attention, or data-dependent ALiBi: a score loses by all that was forgotten since its key.\n\n"
      "    s_ij <- s_ij + sum_{t = j+1 ... i} log_forget_t\n\n"
      "log_forget [batch, heads, time]: ln f of every key token, f in (0, 1) computed by the model. Counts tokens, "
      "not\n"
      "positions: queries are the last of them, the first one after `past` others. Keys after the query get 0.\n\n"
      "Lin, Nikishin, He, Courville 2025, arXiv 2503.02130.",
      {{"log_forget", 3}},
      []<class A>(const Past& past, const Param<A, 3>& log_forget) { return ForgettingBias<A>(log_forget, past.past); },
      settings(Past{}, Field{"past", &Past::past}));
  encoding<NoSpec, 4>(
      m, "DenseBias",
      "A bias that someone else computed, or learns entry by entry; -inf works, so it serves as a mask too.\n\n"
      "    s_ij <- s_ij + bias[b, h, i, j]\n\n"
      "bias [batch or 1, heads or 1, q_len or 1, k_len or 1], by indices, not positions; or without its first axes.",
      {{"bias", 4, false, 2, "attention()'s visible"}},
      []<class A>(const Param<A, 4>& bias) { return DenseBias<A>(bias); });
}

}  // namespace bearing::python
