#include <bearing/encodings/xlnet.hpp>
#include <bearing/error.hpp>

#include "describe/describer.hpp"
#include "terms/relation.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

template <class A>
XlnetSegmentTerm<A>::XlnetSegmentTerm(Param<A, 3> seg_embed, Param<A, 2> r_s, View<const Index, 2> q_segments,
                                      View<const Index, 2> k_segments)
    : seg_embed_(seg_embed), r_s_(r_s), q_segments_(q_segments), k_segments_(k_segments) {
  const auto& shape = seg_embed.value.shape;
  if (seg_embed.value.data == nullptr || shape[0] != 2) {
    throw ShapeError(concat("[XlnetSegmentTerm] seg_embed: must be [2, heads, dim], shape is ", shape));
  }
  const std::array<Index, 2> wanted{shape[1], shape[2]};
  if (r_s.value.data == nullptr || r_s.value.shape != wanted) {
    throw ShapeError(concat("[XlnetSegmentTerm] r_s: must be [heads, dim] = ", wanted, " like seg_embed, shape is ",
                            r_s.value.shape));
  }
  check_features("XlnetSegmentTerm", "seg_embed", seg_embed);
  check_features("XlnetSegmentTerm", "r_s", r_s);
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
                            ", shapes are ", q_segments_.shape, " and ", k_segments_.shape));
  }
  if ((q_segments_.data == nullptr && q_segments_.size() > 0) ||
      (k_segments_.data == nullptr && k_segments_.size() > 0)) {
    throw ShapeError(
        concat("[", function, "] XlnetSegment.q_segments, k_segments: must have memory, got a null pointer"));
  }
}

/// each(i, segment of query i, segments of all keys of the tile, their stride)
template <class A>
template <class Each>
void XlnetSegmentTerm<A>::over_rows(const Tile<A>& tile, const Each& each) const {
  const Index* keys = &k_segments_(tile.batch, tile.col);
  for (Index i = 0; i < tile.rows; ++i) {
    each(i, q_segments_(tile.batch, tile.row + i), keys, k_segments_.stride[1]);
  }
}

template <class A>
void XlnetSegmentTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  const Index dim = tile.dim;
  const A* seg = &seg_embed_.value(Index{0}, tile.head, Index{0});
  A *q_r = tile.scratch, *product = q_r + tile.rows * dim;  // q_i + r_s: [rows, dim]; times seg_0, seg_1: [rows, 2]
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index d = 0; d < dim; ++d) q_r[i * dim + d] = tile.q[i * tile.q_stride + d] + r_s_.value(tile.head, d);
  }
  tiles::multiply_nt(tile.rows, Index{2}, dim, tile.scale, q_r, dim, seg, seg_embed_.value.stride[0], product,
                     Index{2});
  over_rows(tile, [&](Index i, Index segment, const Index* keys, Index step) {
    const A same = product[2 * i], other = product[2 * i + 1];
    A* to = s + i * tile.stride;
    for (Index j = 0; j < tile.cols; ++j) to[j] += keys[j * step] == segment ? same : other;
  });
}

template <class A>
void XlnetSegmentTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  const Index dim = tile.dim;
  const A* seg = &seg_embed_.value(Index{0}, tile.head, Index{0});
  A *q_r = tile.scratch, *d_product = q_r + tile.rows * dim;
  // s_ij += product[i][σ(i, j)]
  over_rows(tile, [&](Index i, Index segment, const Index* keys, Index step) {
    const A* from = d_s + i * tile.stride;
    A same = 0, other = 0;
    for (Index j = 0; j < tile.cols; ++j) (keys[j * step] == segment ? same : other) += from[j];
    d_product[2 * i] = same, d_product[2 * i + 1] = other;
  });
  // product = scale (q_i + r_s)·seg_σ
  A* d_seg = seg_embed_.grad.data == nullptr ? nullptr : grads.params;
  if (d_seg != nullptr) {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index d = 0; d < dim; ++d) q_r[i * dim + d] = tile.q[i * tile.q_stride + d] + r_s_.value(tile.head, d);
    }
    tiles::add_multiply_tn(tile.rows, Index{2}, dim, tile.scale, d_product, Index{2}, q_r, dim, d_seg, dim);
  }
  A* d_r_s =
      r_s_.grad.data == nullptr || grads.params == nullptr ? nullptr : grads.params + (d_seg == nullptr ? 0 : 2 * dim);
  if (d_r_s == nullptr && grads.d_q == nullptr) return;
  A* d_q_r = q_r;
  std::fill_n(d_q_r, tile.rows * dim, A{0});
  tiles::add_multiply_nn(tile.rows, Index{2}, dim, tile.scale, d_product, Index{2}, seg, seg_embed_.value.stride[0],
                         d_q_r, dim);
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index d = 0; d < dim; ++d) {
      if (grads.d_q != nullptr) grads.d_q[i * grads.d_q_stride + d] += d_q_r[i * dim + d];
      if (d_r_s != nullptr) d_r_s[d] += d_q_r[i * dim + d];
    }
  }
}

template <class A>
Index XlnetSegmentTerm<A>::param_size() const {
  const Index dim = seg_embed_.value.shape[2];
  return (seg_embed_.grad.data == nullptr ? 0 : 2 * dim) + (r_s_.grad.data == nullptr ? 0 : dim);
}

template <class A>
void XlnetSegmentTerm<A>::collect(Index, Index head, const A* d_params) const {
  const Index dim = seg_embed_.value.shape[2];
  if (seg_embed_.grad.data != nullptr) {
    for (Index x = 0; x < 2 * dim; ++x) seg_embed_.grad(x / dim, head, x % dim) += d_params[x];
    d_params += 2 * dim;
  }
  if (r_s_.grad.data == nullptr) return;
  for (Index d = 0; d < dim; ++d) r_s_.grad(head, d) += d_params[d];
}

template <class A>
Index XlnetSegmentTerm<A>::scratch_size(Index rows, Index) const {
  return rows * (seg_embed_.value.shape[2] + 2);
}

template class XlnetSegmentTerm<float>;
template class XlnetSegmentTerm<double>;

void describe_xlnet(Describer& to) {
  to.home("xlnet", {"Yang et al.", 2019, "arXiv 1906.08237"});
  to.record("Xlnet", Xlnet{},
            "XLNet: Transformer-XL's encoding with offsets both ways, and a term by segment.\n\n"
            "    s_ij = scale [q_i k_j + u k_j + (q_i + v) r_{m-n} + (q_i + r_s) seg_same(i, j)]\n\n"
            "Yang, Dai, Yang, Carbonell, Salakhutdinov, Le 2019, arXiv 1906.08237.")
      .member("clamp_len", &Xlnet::clamp_len, "Offsets beyond +-clamp_len count as it; 0 for none (a config's -1).")
      .member("bidirectional", &Xlnet::bidirectional, "Whether a config's attn_type is 'bi'.")
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
                   "The same segment's vector, and the other's.")
             .starts(normal(0.02)),
         Parameter("r_s", {"heads", "dim"}, "What is added to the query.").starts(normal(0.02)),
         Parameter("q_segments", {"batch", "q_len"}, "The segment of each query.").of_indices(),
         Parameter("k_segments", {"batch", "k_len"}, "The segment of each key.").of_indices()},
        []<class A>(const Param<A, 3>& seg_embed, const Param<A, 2>& r_s, const View<const Index, 2>& q_segments,
                    const View<const Index, 2>& k_segments) {
          return XlnetSegmentTerm<A>(seg_embed, r_s, q_segments, k_segments);
        })
      .form(Form::rows_by_index)
      .reads_content()
      .by_index();
}

}  // namespace bearing
