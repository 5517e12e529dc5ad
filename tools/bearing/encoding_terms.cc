#include <algorithm>
#include <bearing/encodings/bert_relative.hpp>
#include <bearing/encodings/cope.hpp>
#include <bearing/encodings/deberta.hpp>
#include <bearing/encodings/sam.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/tupe.hpp>
#include <bearing/encodings/xlnet.hpp>

#include "encoding_spec.hpp"

// Specs of terms that look at queries, keys or values.

namespace bearing::tool {
namespace {

template <class A>
void shaw(SpecReader<A>& read) {
  const CallShape& call = read.call;
  const Shaw made{.clip = read.spec.whole("clip", 16, 0, Index{1} << 24)};
  const auto extents = [&](Index dim) {
    return Extents{{"heads", call.heads, true}, {"2 clip + 1", made.rows()}, {"dim", dim}};
  };
  const Param<A, 3> value = read.template optional_param<3>("value", extents(call.value_dim));
  // Values alone are an encoding too; with neither there is none.
  const Param<A, 3> key = value.value.data == nullptr ? read.template param<3>("key", extents(call.dim))
                                                      : read.template optional_param<3>("key", extents(call.dim));
  read.act(ShawTerm<A>(made, key, value));
}

template <class A>
void bert_relative(SpecReader<A>& read) {
  const BertRelative made{.max_position_embeddings = read.spec.whole("max_position_embeddings", 512, 1),
                          .type = read.spec.name() == "bert_relative_key" ? BertRelativeType::relative_key
                                                                          : BertRelativeType::relative_key_query};
  read.act(BertRelativeTerm<A>(
      made, read.template param<2>("table", {{"2 max_position_embeddings - 1", made.rows()}, {"dim", read.call.dim}})));
}

template <class A>
void wav2vec2_bert(SpecReader<A>& read) {
  const Wav2Vec2BertRelative made{.left = read.spec.whole("left", 64, 0), .right = read.spec.whole("right", 8, 0)};
  read.act(BertRelativeTerm<A>(
      made, read.template param<2>("table", {{"left + right + 1", made.rows()}, {"dim", read.call.dim}})));
}

/// The first and the last position of all tokens, on the first axis.
std::pair<Index, Index> range(const Positions& at, Index batch, Index time) {
  if (!at.integral()) throw UsageError("--encoding: Transformer-XL and XLNet need whole positions");
  Index low = max_position, high = -max_position;
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < time; ++t) {
      low = std::min(low, at.integer(0, b, t)), high = std::max(high, at.integer(0, b, t));
    }
  }
  return {low, high};
}

/// r for the offsets that the call meets, from w_r; or as a file has it.
template <class A>
Param<A, 3> relative_rows(SpecReader<A>& read, TransformerXL& xl) {
  const CallShape& call = read.call;
  if (read.spec.given("r")) {
    xl.first_offset = read.spec.whole("first_offset", 0, -max_position);
    return read.template param<3>("r", {{"heads", call.heads}, {"offsets", Extent::any}, {"dim", call.dim}});
  }
  const Param<A, 2> w_r =
      read.template param<2>("w_r", {{"heads dim", call.heads * call.dim}, {"d_model", Extent::any}});
  call.q_positions->check("attend", "q_positions", 1, call.batch, call.q_len);
  call.k_positions->check("attend", "k_positions", 1, call.batch, call.k_len);
  const auto [q_low, q_high] = range(*call.q_positions, call.batch, call.q_len);
  const auto [k_low, k_high] = range(*call.k_positions, call.batch, call.k_len);
  xl.first_offset = xl.causal ? std::max<Index>(0, q_low - k_high) : q_low - k_high;
  const std::vector<Index> shape = {call.heads, std::max<Index>(1, q_high - k_low - xl.first_offset + 1), call.dim};
  const View<A, 3> r = read.template zeros<3>(shape);
  transformer_xl_relative<A>(xl, w_r.value, r);
  if (w_r.grad.data == nullptr) return {r};
  const View<A, 3> d_r = read.template zeros<3>(shape);
  read.after_backward([xl, d_r, d_w_r = w_r.grad] { transformer_xl_relative_backward<A>(xl, d_r, d_w_r); });
  return {r, d_r};
}

template <class A>
void transformer_xl(SpecReader<A>& read) {
  const CallShape& call = read.call;
  const bool xlnet = read.spec.name() == "xlnet";
  TransformerXL made{.clamp_len = read.spec.whole("clamp_len", 0, 0), .causal = !xlnet};
  if (xlnet) made.causal = read.spec.word("attn_type", {"bi", "uni"}) == "uni";
  const Extents heads = {{"heads", call.heads}, {"dim", call.dim}};
  const Param<A, 3> r = relative_rows(read, made);
  const Param<A, 2> u = read.template param<2>("u", heads);
  read.act(TransformerXLTerm<A>(made, r, u, read.template param<2>("v", heads)));
  if (!xlnet) return;
  const Param<A, 3> seg_embed =
      read.template optional_param<3>("seg_embed", {{"same, other", 2}, {"heads", call.heads}, {"dim", call.dim}});
  if (seg_embed.value.data == nullptr) return;
  const Param<A, 2> r_s = read.template param<2>("r_s", heads);
  const View<const Index, 2> q =
      read.indices("q_segments", {{"batch", call.batch, call.batch == 1}, {"q_len", call.q_len}});
  const View<const Index, 2> k =
      read.indices("k_segments", {{"batch", call.batch, call.batch == 1}, {"k_len", call.k_len}});
  read.act(XlnetSegmentTerm<A>(seg_embed, r_s, q, k));
}

template <class A>
void deberta(SpecReader<A>& read) {
  SpecText& spec = read.spec;
  const CallShape& call = read.call;
  Deberta made{
      .max_relative_positions = spec.whole("max_relative_positions", 512, 1, Index{1} << 24),
      .position_buckets = spec.whole("position_buckets", spec.name() == "deberta_v2" ? 256 : 0, 0, Index{1} << 24)};
  made.index = spec.word("index", {"code", "paper"}) == "code" ? DebertaIndex::code : DebertaIndex::paper;
  const Extents extents = {{"heads", call.heads}, {"2 span", 2 * made.span()}, {"dim", call.dim}};
  const Param<A, 3> query = read.template optional_param<3>("query", extents);
  const Param<A, 3> key = query.value.data == nullptr ? read.template param<3>("key", extents)
                                                      : read.template optional_param<3>("key", extents);
  made.c2p = key.value.data != nullptr, made.p2c = query.value.data != nullptr;
  read.own_scale(deberta_softmax_scale(made, std::max<Index>(call.dim, 1)));
  read.act(DebertaTerm<A>(made, key, query));
}

template <class A>
void tupe(SpecReader<A>& read) {
  SpecText& spec = read.spec;
  const CallShape& call = read.call;
  const Tupe made{.rel_pos_bins = spec.name() == "tupe_r" ? spec.whole("rel_pos_bins", 32, 1) : 0,
                  .max_rel_pos = spec.whole("max_rel_pos", 128, 1),
                  .cls = spec.word("cls", {"untied", "tied"}) == "untied" ? TupeCls::untied : TupeCls::tied};
  const bool untied = made.cls == TupeCls::untied;
  const Extents extents = {
      {"heads", call.heads}, {untied ? "length + 1" : "length", Extent::any}, {"dim", Extent::any}};
  const Param<A, 3> query = read.template param<3>("query", extents);
  const Param<A, 3> key = read.template param<3>("key", extents);
  Param<A, 2> bias;
  if (made.rel_pos_bins > 0) {
    bias = read.template param<2>("bias", {{"bins", made.rel_pos_bins + (untied ? 1 : 0)}, {"heads", call.heads}});
  }
  read.own_scale(tupe_softmax_scale(std::max<Index>(call.dim, 1)));
  read.act(TupeBias<A>(made, query, key, bias));
}

template <class A>
void cope(SpecReader<A>& read) {
  const auto scale = [&read](const char* key, const std::vector<std::string>& words) {
    return read.spec.word(key, words) == "softmax" ? CopeScale::softmax : CopeScale::one;
  };
  Cope made{.gate_scale = scale("gate_scale", {"softmax", "one"}),
            .score_scale = scale("score_scale", {"one", "softmax"})};
  const Param<A, 3> embeddings = read.template param<3>(
      "embeddings", {{"heads", read.call.heads, true}, {"max_pos", Extent::any}, {"dim", read.call.dim}});
  made.max_pos = embeddings.value.shape[1];
  read.act(CopeTerm<A>(made, embeddings));
}

template <class A>
void sam(SpecReader<A>& read) {
  const auto side = [&](const char* key) {
    if (!read.spec.given(key)) read.spec.fail(std::string(key) + "=N is missing, in patches");
    return read.spec.whole(key, 0, 1, Index{1} << 15);
  };
  const Sam made{.height = side("height"), .width = side("width")};
  const Param<A, 2> height =
      read.template param<2>("height_table", {{"2 height - 1", 2 * made.height - 1}, {"dim", read.call.dim}});
  read.act(
      SamTerm<A>(made, height,
                 read.template param<2>("width_table", {{"2 width - 1", 2 * made.width - 1}, {"dim", read.call.dim}})));
}

}  // namespace

void list_terms(std::vector<Readable>& all) {
  all.insert(all.end(), {{"shaw", shaw<double>, shaw<float>},
                         {"bert_relative_key", bert_relative<double>, bert_relative<float>},
                         {"bert_relative_key_query", bert_relative<double>, bert_relative<float>},
                         {"wav2vec2_bert", wav2vec2_bert<double>, wav2vec2_bert<float>},
                         {"transformer_xl", transformer_xl<double>, transformer_xl<float>},
                         {"xlnet", transformer_xl<double>, transformer_xl<float>},
                         {"deberta", deberta<double>, deberta<float>},
                         {"deberta_v2", deberta<double>, deberta<float>},
                         {"tupe", tupe<double>, tupe<float>},
                         {"tupe_r", tupe<double>, tupe<float>},
                         {"cope", cope<double>, cope<float>},
                         {"sam", sam<double>, sam<float>}});
}

}  // namespace bearing::tool
