#include <bearing/encodings/xlnet.hpp>
#include <bearing/error.hpp>

#include "describe/describer.hpp"
#include "encodings/content/transformer_xl_words.hpp"
#include "terms/checks.hpp"
#include "terms/relation.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

template <class A>
XlnetSegmentTerm<A>::XlnetSegmentTerm(Param<A, 3> seg_embed, Param<A, 2> r_s, View<const Index, 2> q_segments,
                                      View<const Index, 2> k_segments)
    : seg_embed_(seg_embed), r_s_(r_s), q_segments_(q_segments), k_segments_(k_segments) {
  const auto& shape = seg_embed.value.shape;
  if (shape[0] != 2) {
    throw ShapeError(concat("[XlnetSegmentTerm] seg_embed: must be [2, heads, dim], got shape ", shape));
  }
  const std::array<Index, 2> wanted{shape[1], shape[2]};
  if (r_s.value.shape != wanted) {
    throw ShapeError(concat("[XlnetSegmentTerm] r_s: must be [heads, dim] = ", wanted, " like seg_embed, got shape ",
                            r_s.value.shape));
  }
  check_tensor("XlnetSegmentTerm", "seg_embed", seg_embed.value);
  check_tensor("XlnetSegmentTerm", "r_s", r_s.value);
  check_features("XlnetSegmentTerm", "seg_embed", seg_embed);
  check_features("XlnetSegmentTerm", "r_s", r_s);
  const auto [in_seg_embed, in_r_s] = grad_block(0, 0).offsets();
  terms_.add({.table = relation::by_head(seg_embed.value),
              .shift = r_s.value,
              .map = {.kind = IndexMap::Kind::segment, .q_segments = q_segments, .k_segments = k_segments},
              .table_block = in_seg_embed,
              .shift_block = in_r_s});
}

template <class A>
void XlnetSegmentTerm<A>::check(const char* function, const Problem& problem) const {
  if (seg_embed_.value.shape[1] != problem.heads) {
    throw ShapeError(concat("[", function, "] XlnetSegment.seg_embed: must be for ", problem.heads, " heads, got ",
                            seg_embed_.value.shape[1]));
  }
  check_dim(function, "XlnetSegment.seg_embed", seg_embed_.value.shape[2], problem);
  const std::array<Index, 2> q{problem.batch, problem.q_len}, k{problem.batch, problem.k_len};
  if (q_segments_.shape != q || k_segments_.shape != k) {
    throw ShapeError(concat("[", function, "] XlnetSegment.q_segments, k_segments: must be ", q, " and ", k,
                            ", got shapes ", q_segments_.shape, " and ", k_segments_.shape));
  }
  check_countable(function, "XlnetSegment.q_segments", q_segments_);
  check_countable(function, "XlnetSegment.k_segments", k_segments_);
  if ((q_segments_.data == nullptr && q_segments_.size() > 0) ||
      (k_segments_.data == nullptr && k_segments_.size() > 0)) {
    throw ShapeError(
        concat("[", function, "] XlnetSegment.q_segments, k_segments: must have memory, got a null pointer"));
  }
}

template <class A>
void XlnetSegmentTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  relation::add_scores(rows_by_index(), tile, s);
}

template <class A>
void XlnetSegmentTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  relation::add_score_grads(rows_by_index(), tile, d_s, grads);
}

template <class A>
Index XlnetSegmentTerm<A>::scratch_size(Index rows, Index cols) const {
  return relation::scratch_size(rows_by_index(), rows, cols);
}

template class XlnetSegmentTerm<float>;
template class XlnetSegmentTerm<double>;

void describe_xlnet(Describer& to) {
  to.home("xlnet", {"Yang et al.", 2019, "arXiv 1906.08237"});
  to.record("Xlnet", Xlnet{},
            "XLNet: Transformer-XL's encoding with offsets both ways, and a term by segment.\n\n"
            "    s_ij = scale [q_i k_j + u k_j + (q_i + v) r_{m-n} + (q_i + r_s) seg_same(i, j)]\n\n"
            "Yang, Dai, Yang, Carbonell, Salakhutdinov, Le 2019, arXiv 1906.08237.")
      .member("clamp_len", &Xlnet::clamp_len,
              "Offsets beyond +-clamp_len count as +-clamp_len; 0: no limit (a config's -1).")
      .member("direction", &Xlnet::direction,
              "'bidirectional' where a config's attn_type is 'bi', 'causal' where it is 'uni'.")
      .method(
          "relative", &Xlnet::relative, {"q_len"},
          "The spec of the TransformerXLTerm for q_len new tokens; its r has q_len + k_len - 1 rows if bidirectional,\n"
          "else k_len.");
  to.encoding<NoSpec, 3, 2, -2, -2>(
        "XlnetSegmentTerm",
        "XLNet's term by segment.\n\n"
        "    s_ij <- s_ij + scale (q_i + r_s) seg_embed[0 if i and j are of the same segment, else 1]\n\n"
        "seg_embed [2, heads, dim], r_s [heads, dim], q_segments and k_segments whole numbers [batch, tokens], "
        "copied.\n\n"
        "Yang, Dai, Yang, Carbonell, Salakhutdinov, Le 2019, arXiv 1906.08237.",
        {Parameter("seg_embed", {{"2", [](const Record&, const Sizes&) { return Index{2}; }}, "heads", "dim"},
                   "The vectors of tokens of the same segment, and of different ones.")
             .starts(normal(0.02))
             .draws(normal(1)),
         Parameter("r_s", {"heads", "dim"}, "What is added to the query.").starts(normal(0.02)).draws(normal(1)),
         Parameter("q_segments", {"batch", "q_len"}, "The segment of each query.").of_indices(),
         Parameter("k_segments", {"batch", "k_len"}, "The segment of each key.").of_indices()},
        []<class A>(const Param<A, 3>& seg_embed, const Param<A, 2>& r_s, const View<const Index, 2>& q_segments,
                    const View<const Index, 2>& k_segments) {
          return XlnetSegmentTerm<A>(seg_embed, r_s, q_segments, k_segments);
        })
      .form(Form::rows_by_index)
      .reads_content()
      .by_index()
      .module("XlnetSegments")
      .beside("xlnet");
}

}  // namespace bearing
