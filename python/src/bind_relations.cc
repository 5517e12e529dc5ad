// Encodings in which position meets content: relative vectors, disentangled and contextual positions.

#include <bearing/encodings/bert_relative.hpp>
#include <bearing/encodings/cope.hpp>
#include <bearing/encodings/deberta.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/encodings/tupe.hpp>
#include <bearing/encodings/xlnet.hpp>
#include <bearing/error.hpp>
#include <memory>

#include "bind.hpp"
#include "calls.hpp"

namespace bearing::python {

template <>
struct Words<BertRelativeType> {
  static constexpr std::array<Word<BertRelativeType>, 2> words{
      {{BertRelativeType::relative_key, "relative_key"}, {BertRelativeType::relative_key_query, "relative_key_query"}}};
};
template <>
struct Words<DebertaIndex> {
  static constexpr std::array<Word<DebertaIndex>, 2> words{
      {{DebertaIndex::code, "code"}, {DebertaIndex::paper, "paper"}}};
};
template <>
struct Words<TupeCls> {
  static constexpr std::array<Word<TupeCls>, 2> words{{{TupeCls::untied, "untied"}, {TupeCls::tied, "tied"}}};
};
template <>
struct Words<CopeScale> {
  static constexpr std::array<Word<CopeScale>, 2> words{{{CopeScale::softmax, "softmax"}, {CopeScale::one, "one"}}};
};

namespace {

/// A copy of whole numbers [batch, tokens].
struct TokenNumbers {
  std::shared_ptr<const std::vector<Index>> numbers;
  std::array<Index, 2> shape{};

  View<const Index, 2> view() const { return dense(numbers->data(), shape[0], shape[1]); }
};

struct Segments {
  Required<TokenNumbers> q_segments, k_segments;
};

}  // namespace

template <>
struct Member<TokenNumbers> {
  static nb::object to(const TokenNumbers& value) {
    nb::list rows;
    for (Index b = 0; b < value.shape[0]; ++b) {
      nb::list row;
      for (Index t = 0; t < value.shape[1]; ++t) row.append(value.view()(b, t));
      rows.append(nb::tuple(row));
    }
    return nb::tuple(rows);
  }
  static TokenNumbers from(nb::handle value, const Place& at) {
    if (value.is_none()) at.fail(name(), value);
    const IndexArray array(value, {at.owner, at.member});
    const View<const Index, 2> from = array.view<2>();
    std::vector<Index> numbers;
    for (Index b = 0; b < from.shape[0]; ++b) {
      for (Index t = 0; t < from.shape[1]; ++t) numbers.push_back(from(b, t));
    }
    return {std::make_shared<const std::vector<Index>>(std::move(numbers)), from.shape};
  }
  static std::string name() { return "ArrayLike"; }
};

namespace {

void bind_shaw(nb::module_& m) {
  spec(m, "Shaw",
       "Relative position representations: a learned vector for each clipped distance, added to keys and to values.\n\n"
       "    s_ij <- s_ij + scale q_i K[rho]      o_i <- o_i + sum_j p_ij V[rho]      rho = clip(n - m, -clip, clip) + "
       "clip\n\n"
       "Shaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.",
       Shaw{}, Field{"clip", &Shaw::clip})
      .def("rows", &Shaw::rows, "Of the tables: 2 clip + 1.")
      .def("row", &Shaw::row, nb::arg("distance"), "The row of a distance, key minus query; far ones share the ends.");
  encoding<Shaw, 3, 3>(
      m, "ShawTerm",
      "Shaw's two sites, scores and values; either table may be left out.\n\n"
      "    s_ij <- s_ij + scale q_i K[rho]      o_i <- o_i + sum_j p_ij V[rho]      rho = clip(n - m, -clip, clip) + "
      "clip\n\n"
      "key, value [2 clip + 1, dim], shared by all heads, or [heads, 2 clip + 1, dim]; row 0 is for keys `clip` or\n"
      "more before the query. Positions are whole numbers.\n\nShaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.",
      {{"key", 3, true, 2}, {"value", 3, true, 2}},
      []<class A>(const Shaw& shaw, const Param<A, 3>& key, const Param<A, 3>& value) {
        return ShawTerm<A>(shaw, key, value);
      });
}

void bind_bert(nb::module_& m) {
  spec(m, "BertRelative",
       "Vectors by distance for keys alone, as Hugging Face's BERT has them (position_embedding_type).\n\n"
       "    s_ij <- s_ij + scale q_i E[rho]  (+ scale k_j E[rho] for relative_key_query)\n"
       "    rho = m - n + max_position_embeddings - 1\n\n"
       "Huang, Liang, Xu, Xiang 2020, arXiv 2009.13658, after Shaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.",
       BertRelative{}, Field{"max_position_embeddings", &BertRelative::max_position_embeddings},
       Field{"position_embedding_type", &BertRelative::type})
      .def("rows", &BertRelative::rows, "Of the table: 2 max_position_embeddings - 1.")
      .def("row", &BertRelative::row, nb::arg("distance"),
           "The row of a distance, key minus query. Raises RangeError for one that has none.");
  spec(m, "Wav2Vec2BertRelative",
       "Vectors by clipped distance for keys, as Wav2Vec2-BERT has them.\n\n"
       "    s_ij <- s_ij + scale q_i E[rho]        rho = clip(n - m, -left, right) + left\n\n"
       "left and right are left_max_position_embeddings and right_max_position_embeddings.\n\n"
       "After Shaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.",
       Wav2Vec2BertRelative{}, Field{"left", &Wav2Vec2BertRelative::left}, Field{"right", &Wav2Vec2BertRelative::right})
      .def("rows", &Wav2Vec2BertRelative::rows, "Of the table: left + right + 1.")
      .def("row", &Wav2Vec2BertRelative::row, nb::arg("distance"),
           "The row of a distance, key minus query; far ones share the ends.");
  encoding<std::variant<BertRelative, Wav2Vec2BertRelative>, 2>(
      m, "BertRelativeTerm",
      "BERT's or Wav2Vec2-BERT's relative keys: table [spec.rows(), dim], shared by all heads.\n\n"
      "    s_ij <- s_ij + scale q_i E[rho]  (+ scale k_j E[rho] for relative_key_query)\n\n"
      "Positions are whole numbers; BERT's nearer to each other than max_position_embeddings.\n\n"
      "Huang, Liang, Xu, Xiang 2020, arXiv 2009.13658.",
      {{"table", 2}},
      []<class A>(const std::variant<BertRelative, Wav2Vec2BertRelative>& either, const Param<A, 2>& table) {
        return std::visit([&](const auto& bert) { return BertRelativeTerm<A>(bert, table); }, either);
      });
}

nb::object relative(const TransformerXL& xl, nb::handle w_r, Index heads, Index offsets, double base) {
  const char* function = "transformer_xl_relative";
  const Array from(w_r, {function, "w_r"});
  if (heads < 1)
    throw RangeError(std::string("[") + function + "] heads: must be at least 1, got " + std::to_string(heads));
  return with_arithmetic(from, [&]<class A>() {
    const View<const A, 2> in = from.view<A, 2>();
    const std::array<Index, 3> shape{heads, std::max(offsets, Index{0}), in.shape[0] / heads};
    const NewArray r = new_array(from.kind(), from.type(), {shape[0], shape[1], shape[2]});
    {
      const Unlocked released;
      bearing::transformer_xl_relative<A>(xl, in, view_of<A, 3>(r, shape), base);
    }
    return r.object;
  });
}

nb::object relative_backward(const TransformerXL& xl, nb::handle d_r, Index d_model, double base) {
  const Array from(d_r, {"transformer_xl_relative_backward", "d_r"});
  return with_arithmetic(from, [&]<class A>() {
    const View<const A, 3> in = from.view<A, 3>();
    const std::array<Index, 2> shape{in.shape[0] * in.shape[2], std::max(d_model, Index{0})};
    const NewArray d_w_r = new_array(from.kind(), from.type(), {shape[0], shape[1]});
    const View<A, 2> out = view_of<A, 2>(d_w_r, shape);
    if (out.size() > 0) std::memset(d_w_r.data, 0, static_cast<std::size_t>(out.size()) * sizeof(A));
    {
      const Unlocked released;
      bearing::transformer_xl_relative_backward<A>(xl, in, out, base);
    }
    return d_w_r.object;
  });
}

void bind_transformer_xl(nb::module_& m) {
  spec(m, "TransformerXL",
       "Transformer-XL's relative encoding.\n\n"
       "    s_ij = scale [q_i k_j + u k_j + (q_i + v) r_{m-n}],   r_d = W_R [sin(d w) | cos(d w)],  w_i = "
       "base^(-2i/D)\n\n"
       "first_offset is r's first row's, negative where keys come after queries; offsets beyond +-clamp_len count as\n"
       "+-clamp_len (0: they do not); causal: nothing is added to keys after the query.\n\n"
       "Dai, Yang, Yang, Carbonell, Le, Salakhutdinov 2019, arXiv 1901.02860.",
       TransformerXL{}, Field{"first_offset", &TransformerXL::first_offset},
       Field{"clamp_len", &TransformerXL::clamp_len}, Field{"causal", &TransformerXL::causal});
  encoding<TransformerXL, 3, 2, 2>(
      m, "TransformerXLTerm",
      "What Transformer-XL adds to scale q_i k_j: its terms (b), (c) and (d).\n\n"
      "    s_ij <- s_ij + scale [u k_j + (q_i + v) r_{m-n}]\n\n"
      "r [heads, offsets, dim], row o for the offset first_offset + o, from transformer_xl_relative() or elsewhere; u, "
      "v\n[heads, dim], in the files r_w_bias and r_r_bias. Offsets are query minus key.\n\n"
      "Dai, Yang, Yang, Carbonell, Le, Salakhutdinov 2019, arXiv 1901.02860.",
      {{"r", 3}, {"u", 2}, {"v", 2}},
      []<class A>(const TransformerXL& xl, const Param<A, 3>& r, const Param<A, 2>& u, const Param<A, 2>& v) {
        return TransformerXLTerm<A>(xl, r, u, v);
      });
  m.def("transformer_xl_relative", relative, nb::arg("spec"), nb::arg("w_r"), nb::kw_only(), nb::arg("heads"),
        nb::arg("offsets"), nb::arg("base") = 10'000.0,
        nb::sig("def transformer_xl_relative(spec: TransformerXL, w_r: ArrayLike, *, heads: int, offsets: int, "
                "base: float = 10000.0) -> Array"),
        "r [heads, offsets, dim] of a TransformerXLTerm: sinusoids [sin | cos] of the offsets times w_r [heads dim, "
        "d_model]\n(r_net.weight), float64 or float32.");
  m.def("transformer_xl_relative_backward", relative_backward, nb::arg("spec"), nb::arg("d_r"), nb::kw_only(),
        nb::arg("d_model"), nb::arg("base") = 10'000.0,
        nb::sig("def transformer_xl_relative_backward(spec: TransformerXL, d_r: ArrayLike, *, d_model: int, "
                "base: float = 10000.0) -> Array"),
        "The gradient of w_r [heads dim, d_model], from that of r [heads, offsets, dim].");
  spec(m, "Xlnet",
       "XLNet: Transformer-XL's encoding with offsets both ways, and a term by segment.\n\n"
       "    s_ij = scale [q_i k_j + u k_j + (q_i + v) r_{m-n} + (q_i + r_s) seg_same(i, j)]\n\n"
       "clamp_len: 0 for none (a config's -1). bidirectional: attn_type 'bi'.\n\n"
       "Yang, Dai, Yang, Carbonell, Salakhutdinov, Le 2019, arXiv 1906.08237.",
       Xlnet{}, Field{"clamp_len", &Xlnet::clamp_len}, Field{"bidirectional", &Xlnet::bidirectional})
      .def(
          "relative", &Xlnet::relative, nb::arg("q_len"),
          "The spec of the TransformerXLTerm for q_len new tokens; its r has q_len + k_len - 1 rows if bidirectional,\n"
          "else k_len.");
  encoding<NoSpec, 3, 2>(
      m, "XlnetSegmentTerm",
      "XLNet's term by segment.\n\n"
      "    s_ij <- s_ij + scale (q_i + r_s) seg_embed[0 if i and j are of the same segment, else 1]\n\n"
      "seg_embed [2, heads, dim], r_s [heads, dim], q_segments and k_segments whole numbers [batch, tokens], "
      "copied.\n\n"
      "Yang, Dai, Yang, Carbonell, Salakhutdinov, Le 2019, arXiv 1906.08237.",
      {{"seg_embed", 3}, {"r_s", 2}},
      []<class A>(const Segments& segments, const Param<A, 3>& seg_embed, const Param<A, 2>& r_s) {
        const TokenNumbers q = segments.q_segments, k = segments.k_segments;
        return XlnetSegmentTerm<A>(seg_embed, r_s, q.view(), k.view());
      },
      settings(Segments{TokenNumbers{}, TokenNumbers{}}, Field{"q_segments", &Segments::q_segments},
               Field{"k_segments", &Segments::k_segments}));
}

void bind_deberta(nb::module_& m) {
  spec(m, "Deberta",
       "DeBERTa's disentangled attention: content meets position twice, as query (c2p) and as key (p2c).\n\n"
       "    s_ij <- s_ij + scale [q_i Kr[d] + k_j Qr[d']]        d = clamp(bucket(m - n) + span, 0, 2 span - 1)\n\n"
       "max_relative_positions: where a config says -1, its max_position_embeddings; position_buckets: 0 for none (-1 "
       "in\na config). index: 'code' takes d' = d, as models were trained, 'paper' the bucket of n - m.\n\n"
       "He, Liu, Gao, Chen 2021, arXiv 2006.03654; v3: arXiv 2111.09543.",
       Deberta{}, Field{"max_relative_positions", &Deberta::max_relative_positions},
       Field{"position_buckets", &Deberta::position_buckets}, Field{"c2p", &Deberta::c2p}, Field{"p2c", &Deberta::p2c},
       Field{"index", &Deberta::index})
      .def("span", &Deberta::span, "Half the rows of the tables.");
  encoding<Deberta, 3, 3>(
      m, "DebertaTerm",
      "Both of DeBERTa's terms.\n\n"
      "    s_ij <- s_ij + scale [q_i Kr[d] + k_j Qr[d']]\n\n"
      "key is Kr, query is Qr, [heads, 2 spec.span(), dim]: the relative embeddings after their projections; None for "
      "a\n"
      "term that the spec switches off. scale is the caller's: deberta_softmax_scale(spec, dim).\n\n"
      "He, Liu, Gao, Chen 2021, arXiv 2006.03654.",
      {{"key", 3, true}, {"query", 3, true}},
      []<class A>(const Deberta& deberta, const Param<A, 3>& key, const Param<A, 3>& query) {
        return DebertaTerm<A>(deberta, key, query);
      });
  m.def(
      "deberta_bucket", [](const Deberta& deberta, Index distance) { return deberta_bucket(deberta, distance); },
      nb::arg("spec"), nb::arg("distance"),
      "The bucket of a key at a distance n - m: key minus query, as everywhere here. The bucket has DeBERTa's own "
      "sign,\n"
      "query minus key, positive for keys before the query: make_log_bucket_position(r) is deberta_bucket(spec, -r).");
  m.def(
      "deberta_softmax_scale", [](const Deberta& deberta, Index dim) { return deberta_softmax_scale(deberta, dim); },
      nb::arg("spec"), nb::arg("dim"), "1/sqrt(dim (1 + terms)): the softmax scale of every product in the score.");
}

void bind_tupe(nb::module_& m) {
  spec(m, "Tupe",
       "TUPE, untied positional encoding: word meets word, position meets position, and the two never mix.\n\n"
       "    s_ij <- s_ij + (p_m U_Q)(p_n U_K)/sqrt(2d) [+ b_h(bucket(n - m))]        TUPE-A [TUPE-R]\n\n"
       "rel_pos_bins: 0 for TUPE-A, 32 in TUPE-R. cls 'untied': the token at position 0 is [CLS], and has two numbers\n"
       "per head instead of positions.\n\nKe, He, Liu 2021, arXiv 2006.15595.",
       Tupe{}, Field{"rel_pos_bins", &Tupe::rel_pos_bins}, Field{"max_rel_pos", &Tupe::max_rel_pos},
       Field{"cls", &Tupe::cls});
  encoding<Tupe, 3, 3, 2>(
      m, "TupeBias",
      "TUPE's term, for whole positions 0 ... length - 1.\n\n"
      "    s_ij <- s_ij + (p_m U_Q)(p_n U_K)/sqrt(2d) [+ b_h(bucket(n - m))]\n\n"
      "query, key [heads, length + 1, dim] ([heads, length, dim] if [CLS] is tied): the projected position vectors.\n"
      "bias [rel_pos_bins + 1, heads] ([rel_pos_bins, heads]) in TUPE-R, else None.\n\n"
      "Ke, He, Liu 2021, arXiv 2006.15595.",
      {{"query", 3}, {"key", 3}, {"bias", 2, true}},
      []<class A>(const Tupe& tupe, const Param<A, 3>& query, const Param<A, 3>& key, const Param<A, 2>& bias) {
        return TupeBias<A>(tupe, query, key, bias);
      });
  m.def(
      "tupe_softmax_scale", [](Index dim) { return tupe_softmax_scale(dim); }, nb::arg("dim"),
      "1/sqrt(2 dim), for words as for positions.");
}

}  // namespace

void bind_relations(nb::module_& m) {
  bind_shaw(m);
  bind_bert(m);
  bind_transformer_xl(m);
  bind_deberta(m);
  bind_tupe(m);

  spec(m, "Cope",
       "CoPE, contextual position encoding: a position counts those tokens that the query cares to count.\n\n"
       "    g_it = sigmoid(gate_scale q_i k_t)      p_ij = min(sum_{t >= j, n_t <= m} g_it, max_pos - 1)\n"
       "    s_ij <- s_ij + (1 - w) z_i[f] + w z_i[f + 1]     f = floor(p_ij), w = p_ij - f, z_i = score_scale q_i E\n\n"
       "gate_scale, score_scale: 'softmax' or 'one'; the defaults are those of the paper's code.\n\n"
       "Golovneva, Wang, Weston, Sukhbaatar 2024, arXiv 2405.18719.",
       Cope{}, Field{"max_pos", &Cope::max_pos}, Field{"gate_scale", &Cope::gate_scale},
       Field{"score_scale", &Cope::score_scale});
  encoding<Cope, 3>(m, "CopeTerm",
                    "CoPE's term: embeddings [heads, max_pos, dim], or [1, max_pos, dim] for all heads alike.\n\n"
                    "    s_ij <- s_ij + (1 - w) z_i[f] + w z_i[f + 1]     z_i = score_scale q_i E\n\n"
                    "Keys stand in order of their positions; those after the query count nothing and get 0.\n\n"
                    "Golovneva, Wang, Weston, Sukhbaatar 2024, arXiv 2405.18719.",
                    {{"embeddings", 3}}, []<class A>(const Cope& cope, const Param<A, 3>& embeddings) {
                      return CopeTerm<A>(cope, embeddings);
                    });
}

}  // namespace bearing::python
