// Encodings of query and key rows beside RoPE itself.

#include <nanobind/stl/vector.h>

#include <bearing/encodings/fope.hpp>
#include <bearing/encodings/lie_rope.hpp>
#include <bearing/encodings/pope.hpp>
#include <bearing/encodings/position_temperature.hpp>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/encodings/string_rope.hpp>

#include "bind.hpp"
#include "encodings.hpp"
#include "specs.hpp"
#include "words.hpp"

namespace bearing::python {

namespace {

/// Head h uses set h / group of the parameters.
struct Grouped {
  Index group = 1;
};

auto grouped() { return settings(Grouped{}, Field{"group", &Grouped::group}); }

void bind_mixed(nb::module_& m) {
  spec(m, "RopeMixed",
       "RoPE-Mixed: each pair of each head turns by an angle that all coordinates of the position share in.\n\n"
       "    phi = sum_axis p_axis f[axis, head, pair]\n\n"
       "head_dim is even, all of it turns; pairing 'interleaved' in the authors' code.\n\n"
       "Heo, Park, Han, Yun 2024, arXiv 2403.13298.",
       RopeMixed{.pairing = Pairing::interleaved}, Field{"head_dim", &RopeMixed::head_dim},
       Field{"axes", &RopeMixed::axes}, Field{"pairing", &RopeMixed::pairing});
  encoding<RopeMixed, 3>(
      m, "RopeMixedRows",
      "RoPE-Mixed with its frequencies [axes, sets, head_dim/2], radians per unit of position.\n\n"
      "    (u, v) <- (u cos phi - v sin phi, u sin phi + v cos phi),   phi = sum_axis p_axis f[axis, head, pair]\n\n"
      "Head h uses set h / group: with grouped queries, keys take group 1 and queries the number of query heads per "
      "key\n"
      "head; one set for all heads: group = heads.\n\nHeo, Park, Han, Yun 2024, arXiv 2403.13298.",
      {{"frequencies", 3}},
      []<class A>(const RopeMixed& mixed, const Grouped& by, const Param<A, 3>& frequencies) {
        return RopeMixedRows<A>(mixed, frequencies, by.group);
      },
      grouped());
  spec(m, "CayleyString",
       "Cayley-STRING: RoPE-Mixed in a learned orthogonal basis.\n\n"
       "    R(p) = RoPE(p) P,   P = (I - S)(I + S)^-1,   S skew-symmetric\n\n"
       "Schenck et al. 2025, arXiv 2502.02562.",
       CayleyString{{.pairing = Pairing::interleaved}}, Field{"rope", &CayleyString::rope});
  encoding<CayleyString, 3, 2>(
      m, "CayleyStringRows",
      "Cayley-STRING with frequencies [axes, sets, head_dim/2] and skew [sets, head_dim (head_dim - 1)/2].\n\n"
      "    R(p) = RoPE(p) P,   P = (I - S)(I + S)^-1\n\n"
      "skew is S's strict upper triangle, row by row. Head h uses set h / group, as in RopeMixedRows.\n\n"
      "Schenck et al. 2025, arXiv 2502.02562.",
      {{"frequencies", 3}, {"skew", 2}},
      []<class A>(const CayleyString& string, const Grouped& by, const Param<A, 3>& frequencies,
                  const Param<A, 2>& skew) { return CayleyStringRows<A>(string, frequencies, skew, by.group); },
      grouped());
  spec(m, "CirculantString",
       "Circulant-STRING: commuting generators that are circulant.\n\n"
       "    R(p) = exp(sum_axis p_axis L_axis),   L = C - C^T,   C[i][j] = c[(i - j) mod head_dim]\n\n"
       "head_dim is at most 1024.\n\nSchenck et al. 2025, arXiv 2502.02562.",
       CirculantString{}, Field{"head_dim", &CirculantString::head_dim}, Field{"axes", &CirculantString::axes});
  encoding<CirculantString, 3>(
      m, "CirculantStringRows",
      "Circulant-STRING with c [axes, sets, head_dim]; only its odd part c[k] - c[head_dim - k] matters.\n\n"
      "    R(p) = exp(sum_axis p_axis L_axis),   L = C - C^T,   C[i][j] = c[(i - j) mod head_dim]\n\n"
      "Head h uses set h / group, as in RopeMixedRows.\n\nSchenck et al. 2025, arXiv 2502.02562.",
      {{"c", 3}},
      []<class A>(const CirculantString& string, const Grouped& by, const Param<A, 3>& c) {
        return CirculantStringRows<A>(string, c, by.group);
      },
      grouped());
}

void bind_lie(nb::module_& m) {
  spec(m, "LieRope",
       "LieRE: a position picks a rotation of the whole head, or of each block of it, out of a learned family.\n\n"
       "    R(p) = exp(sum_axis p_axis A_axis),   A skew-symmetric\n\n"
       "block divides head_dim and is at most 128; 0: the whole head, as in the authors' code.\n\n"
       "Ostmeier et al. 2024, arXiv 2406.10322.",
       LieRope{}, Field{"head_dim", &LieRope::head_dim}, Field{"axes", &LieRope::axes},
       Field{"block", &LieRope::block});
  encoding<LieRope, 4>(
      m, "LieRopeRows",
      "LieRE with generators [sets, axes, head_dim/block, block (block - 1)/2]: strict upper triangles, row by row.\n\n"
      "    R(p) = exp(sum_axis p_axis A_axis)\n\n"
      "Head h uses set h / group, as in RopeMixedRows.\n\nOstmeier et al. 2024, arXiv 2406.10322.",
      {{"generators", 4}},
      []<class A>(const LieRope& lie, const Grouped& by, const Param<A, 4>& generators) {
        return LieRopeRows<A>(lie, generators, by.group);
      },
      grouped());
}

void bind_fope(nb::module_& m) {
  spec(m, "Fope",
       "FoPE, Fourier position embedding: each pair turns by a Fourier series instead of one frequency.\n\n"
       "    cos'_d(p) = sum_D cos(p w_D) C[head, D, d]     sin'_d(p) = sum_D sin(p w_D) S[head, D, d]\n\n"
       "over frequencies that complete a turn within trained_length, or the `kept` fastest ones; pairs past the mixed\n"
       "ones pass through.\n\nHua et al. 2024, arXiv 2412.17739.",
       Fope{.pairing = Pairing::half}, Field{"head_dim", &Fope::head_dim}, Field{"base", &Fope::base},
       Field{"trained_length", &Fope::trained_length}, Field{"kept", &Fope::kept}, Field{"pairing", &Fope::pairing});
  encoding<Fope, 3, 3>(
      m, "FopeRows",
      "FoPE with its coefficients C and S: cos, sin [sets, kept, mixed], taken as they are.\n\n"
      "    (u, v) <- (u cos' - v sin', u sin' + v cos')\n\n"
      "kept is as many as fope_frequencies(spec) has, mixed at most head_dim/2. Head h uses set h / group, as in\n"
      "RopeMixedRows: the published models have one set per key head.\n\nHua et al. 2024, arXiv 2412.17739.",
      {{"cos", 3}, {"sin", 3}},
      []<class A>(const Fope& fope, const Grouped& by, const Param<A, 3>& cos, const Param<A, 3>& sin) {
        return FopeRows<A>(fope, cos, sin, by.group);
      },
      grouped());
}

void bind_pope(nb::module_& m) {
  spec(m, "Pope",
       "PoPE, polar coordinates: each element's length from the content alone, its angle from the position alone.\n\n"
       "    score = sum_c softplus(q_c) softplus(k_c) cos((n - m) w_c + delta_c),   w_c = base^(-c/head_dim)\n\n"
       "Gopalakrishnan, Csordas, Schmidhuber, Mozer 2025, arXiv 2509.10534.",
       Pope{}, Field{"head_dim", &Pope::head_dim}, Field{"base", &Pope::base});
  encoding<Pope, 2>(
      m, "PopeRows",
      "PoPE: rows [head_dim] become [2 head_dim], cos and sin of element c at 2c and 2c + 1.\n\n"
      "    q_c at m -> softplus(q_c) (cos m w_c, sin m w_c),   k_c at n -> softplus(k_c) (cos(n w_c + delta_c), sin "
      "...)\n\n"
      "offsets: delta [sets, head_dim], held within [-2 pi, 0], or None for 0. Head h uses set h / group, as in\n"
      "RopeMixedRows.\n\nGopalakrishnan, Csordas, Schmidhuber, Mozer 2025, arXiv 2509.10534.",
      {{"offsets", 2, true}},
      []<class A>(const Pope& pope, const Grouped& by, const Param<A, 2>& offsets) {
        return PopeRows<A>(pope, offsets, by.group);
      },
      grouped());
}

void bind_temperature(nb::module_& m) {
  spec(
      m, "PositionTemperature",
      "Attention temperature by position: queries far into the sequence grow with the logarithm of their position.\n\n"
      "    q_i <- q_i (1 + beta ln(1 + floor((m_i + first) / length)))\n\n"
      "first is what position 0 counts as: 1 in Llama 4, 0 in Ministral 3. It orders nothing: it goes beside RoPE, or\n"
      "beside nothing.\n\nNakanishi 2025, arXiv 2501.19399; Llama 4.",
      PositionTemperature{.first = 0}, Field{"beta", &PositionTemperature::beta},
      Field{"length", &PositionTemperature::length}, Field{"first", &PositionTemperature::first})
      .def_static(
          "llama4",
          [](double attn_scale, double floor_scale) { return PositionTemperature::llama4(attn_scale, floor_scale); },
          nb::arg("attn_scale") = 0.1, nb::arg("floor_scale") = 8192.0,
          "attn_scale and floor_scale of a Llama 4 config.")
      .def_static(
          "ministral3",
          [](double original_length, double beta) { return PositionTemperature::ministral3(original_length, beta); },
          nb::arg("original_length"), nb::arg("beta") = 0.1,
          "original_max_position_embeddings and llama_4_scaling_beta of a Ministral 3 or Mistral 4 config.")
      .def(
          "factor", [](const PositionTemperature& self, double m) { return self.factor(m); }, nb::arg("m"),
          "The factor of a query at position m.");
  encoding<PositionTemperature>(
      m, "TemperatureRows",
      "The temperature as an encoding of rows: multiplies queries, copies keys. Positions count tokens from 0 on.\n\n"
      "    q_i <- q_i (1 + beta ln(1 + floor((m_i + first) / length)))\n\nNakanishi 2025, arXiv 2501.19399.",
      {}, []<class A>(const PositionTemperature& temperature) { return TemperatureRows<A>(temperature); });
}

}  // namespace

void bind_rows(nb::module_& m) {
  bind_mixed(m);
  bind_lie(m);
  bind_fope(m);
  bind_pope(m);
  bind_temperature(m);
  m.def(
      "rope_mixed_frequencies",
      [](const RopeMixed& mixed, Index heads, std::uint64_t seed, double base) {
        const std::vector<double> all = rope_mixed_frequencies(mixed, heads, seed, base);
        const NewArray out = new_array(ArrayKind::numpy, DataType::f64, {mixed.axes, heads, mixed.head_dim / 2});
        std::copy(all.begin(), all.end(), static_cast<double*>(out.data));
        return out.object;
      },
      nb::arg("spec"), nb::arg("heads"), nb::arg("seed"), nb::arg("base") = 10.0,
      nb::sig("def rope_mixed_frequencies(spec: RopeMixed, heads: int, seed: int, base: float = 10.0) -> Array"),
      "The authors' start for two axes: frequencies [2, heads, head_dim/2] in directions drawn per head; float64.\n\n"
      "The same seed gives the same numbers on every machine.");
  m.def(
      "fope_frequencies", [](const Fope& fope) { return fope_frequencies(fope); }, nb::arg("spec"),
      "The frequencies that are kept, the fastest first.");
}

}  // namespace bearing::python
