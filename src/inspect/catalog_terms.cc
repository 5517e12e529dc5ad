#include <algorithm>
#include <bearing/encodings/bert_relative.hpp>
#include <bearing/encodings/cope.hpp>
#include <bearing/encodings/deberta.hpp>
#include <bearing/encodings/sam.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/encodings/tupe.hpp>
#include <bearing/encodings/xlnet.hpp>

#include "inspect/make.hpp"

// Terms of scores and values that look at queries or keys, and TUPE, whose positions have projections of their own.
// Where an encoding projects vectors of the model's width, the example's model is one head wide.

namespace bearing::inspect {
namespace {

template <BertRelativeType type>
Specimen make_bert(const SpecimenOptions& options) {
  const Numbers numbers = numbers_of(options);
  const BertRelative bert{.max_position_embeddings = options.length, .type = type};
  return specimen_of(options, numbers,
                     BertRelativeTerm<double>(bert, numbers->normal<2>({bert.rows(), options.dim}, 1)));
}

Specimen make_wav2vec2_bert(const SpecimenOptions& options) {
  const Numbers numbers = numbers_of(options);
  const Wav2Vec2BertRelative bert;
  return specimen_of(options, numbers,
                     BertRelativeTerm<double>(bert, numbers->normal<2>({bert.rows(), options.dim}, 1)));
}

/// r is computed for the offsets that a call needs, as a model does.
Specimen transformer_xl(const SpecimenOptions& options, bool causal) {
  const Numbers numbers = numbers_of(options);
  const Index heads = options.heads, dim = options.dim;
  const Param<double, 2> w_r = numbers->normal<2>({heads * dim, dim}, softmax_scale(dim));
  const Param<double, 2> u = numbers->normal<2>({heads, dim}, 0.1), v = numbers->normal<2>({heads, dim}, 0.1);
  Specimen specimen{.options = options, .causal = causal, .parameters = numbers->count(), .held = numbers->count()};
  specimen.score_terms = [=, kept = numbers](const Positions& q_positions, const Positions& k_positions,
                                             View<const double, 4> q, View<const double, 4> k, View<double, 4> scores,
                                             const Executor& on) {
    Index q_low = max_position, q_high = -max_position, k_low = max_position, k_high = -max_position;
    for (Index i = 0; i < q.shape[2]; ++i) {
      q_low = std::min(q_low, q_positions.integer(0, 0, i)), q_high = std::max(q_high, q_positions.integer(0, 0, i));
    }
    for (Index j = 0; j < k.shape[2]; ++j) {
      k_low = std::min(k_low, k_positions.integer(0, 0, j)), k_high = std::max(k_high, k_positions.integer(0, 0, j));
    }
    const Index first = causal ? std::max<Index>(0, q_low - k_high) : q_low - k_high;
    const TransformerXL xl{.first_offset = first, .causal = causal};
    const Index offsets = std::max<Index>(1, q_high - k_low - first + 1);
    std::vector<double> memory(static_cast<std::size_t>(heads * offsets * dim));
    const View<double, 3> r = dense(memory.data(), heads, offsets, dim);
    transformer_xl_relative<double>(xl, w_r.value, r);
    const TransformerXLTerm<double> encoding(xl, {r}, u, v);
    add_scores(with(encoding),
               {.q_positions = q_positions, .k_positions = k_positions, .q = q, .k = k, .scale = softmax_scale(dim)},
               scores, on);
  };
  return specimen;
}

Specimen make_transformer_xl(const SpecimenOptions& options) { return transformer_xl(options, true); }
Specimen make_xlnet(const SpecimenOptions& options) { return transformer_xl(options, !Xlnet{}.bidirectional); }

template <Index buckets>
Specimen make_deberta(const SpecimenOptions& options) {
  const Numbers numbers = numbers_of(options);
  const Deberta deberta{.position_buckets = buckets};
  const std::array<Index, 3> shape = {options.heads, 2 * deberta.span(), options.dim};
  const Param<double, 3> key = numbers->normal<3>(shape, 1);
  return specimen_of(options, numbers, DebertaTerm<double>(deberta, key, numbers->normal<3>(shape, 1)));
}

/// rows [heads, time, dim] of p W: p [time, dim], w [dim, heads · dim]
View<double, 3> projected(const Numbers& numbers, View<const double, 2> p, View<const double, 2> w, Index heads) {
  const Index dim = p.shape[1];
  const View<double, 3> y = numbers->table<3>({heads, p.shape[0], dim});
  for (Index t = 0; t < p.shape[0]; ++t) {
    for (Index c = 0; c < dim; ++c) {
      for (Index h = 0; h < heads; ++h) {
        for (Index d = 0; d < dim; ++d) y(h, t, d) += p(t, c) * w(c, h * dim + d);
      }
    }
  }
  return y;
}

template <Index bins>
Specimen make_tupe(const SpecimenOptions& options) {
  const Numbers numbers = numbers_of(options);
  const Index heads = options.heads, dim = options.dim;
  const Tupe tupe{.rel_pos_bins = bins};
  const Param<double, 2> p = numbers->normal<2>({options.length + 1, dim}, 1);
  const Param<double, 2> u_q = numbers->normal<2>({dim, heads * dim}, softmax_scale(dim));
  const Param<double, 2> u_k = numbers->normal<2>({dim, heads * dim}, softmax_scale(dim));
  const View<double, 3> query = projected(numbers, p.value, u_q.value, heads);
  const View<double, 3> key = projected(numbers, p.value, u_k.value, heads);
  const Param<double, 2> bias = bins > 0 ? numbers->normal<2>({bins + 1, heads}, 1) : Param<double, 2>{};
  Specimen specimen = specimen_of(options, numbers, TupeBias<double>(tupe, {query}, {key}, bias));
  specimen.held += query.size() + key.size();
  return specimen;
}

Specimen make_cope(const SpecimenOptions& options) {
  const Numbers numbers = numbers_of(options);
  const Cope cope{.max_pos = 64};
  Specimen specimen{.options = options, .causal = true, .by_index = true};
  act(specimen, numbers,
      CopeTerm<double>(cope, numbers->normal<3>({1, cope.max_pos, options.dim}, softmax_scale(options.dim))));
  return specimen;
}

Specimen make_sam(const SpecimenOptions& options) {
  const Numbers numbers = numbers_of(options);
  const Index side = square_side(options.length);
  const Sam sam{.height = side, .width = side};
  const Param<double, 2> height = numbers->normal<2>({2 * side - 1, options.dim}, 0.1);
  Specimen specimen =
      specimen_of(options, numbers, SamTerm<double>(sam, height, numbers->normal<2>({2 * side - 1, options.dim}, 0.1)));
  specimen.width = side;
  return specimen;
}

}  // namespace

void list_terms(std::vector<Description>& all) {
  constexpr const char* huang = "Huang et al.";
  constexpr const char* he = "He et al.";
  constexpr const char* ke = "Ke et al.";
  all.insert(
      all.end(),
      {entry("bert_relative_key", "BERT, relative_key", huang, 2020, "arXiv 2009.13658",
             "vectors per distance meet queries", make_bert<BertRelativeType::relative_key>),
       entry("bert_relative_key_query", "BERT, relative_key_query", huang, 2020, "arXiv 2009.13658",
             "vectors per distance meet queries and keys", make_bert<BertRelativeType::relative_key_query>),
       entry("wav2vec2_bert", "Wav2Vec2-BERT, relative_key", "Seamless team", 2023, "arXiv 2312.05187",
             "vectors per distance, clipped, meet queries", make_wav2vec2_bert),
       entry("transformer_xl", "Transformer-XL", "Dai et al.", 2019, "arXiv 1901.02860",
             "projected sinusoids of the distance meet queries", make_transformer_xl),
       entry("xlnet", "XLNet", "Yang et al.", 2019, "arXiv 1906.08237", "Transformer-XL's term, for keys on both sides",
             make_xlnet),
       entry("deberta", "DeBERTa", he, 2021, "arXiv 2006.03654", "content meets distance both ways", make_deberta<0>),
       entry("deberta_v2", "DeBERTa v2 and v3", he, 2021, "arXiv 2006.03654", "DeBERTa with buckets of distance",
             make_deberta<256>),
       entry("tupe", "TUPE-A", ke, 2021, "arXiv 2006.15595", "position meets position, apart from words", make_tupe<0>),
       entry("tupe_r", "TUPE-R", ke, 2021, "arXiv 2006.15595", "TUPE with T5 buckets", make_tupe<32>),
       entry("cope", "CoPE", "Golovneva et al.", 2024, "arXiv 2405.18719", "positions counted by gates of the content",
             make_cope),
       entry("sam", "SAM's decomposed table", "Li et al.", 2022, "arXiv 2112.01526",
             "vectors per row and column offset meet queries", make_sam)});
}

}  // namespace bearing::inspect
