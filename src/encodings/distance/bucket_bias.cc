#include <algorithm>
#include <bearing/encodings/bucket_bias.hpp>
#include <bearing/error.hpp>
#include <bearing/scores.hpp>

#include "describe/describer.hpp"
#include "encodings/distance/shared_axes.hpp"
#include "tensor_checks.hpp"
#include "terms/checks.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

template <class A>
void check_table(const Param<A, 2>& table) {
  if (table.value.shape[0] < 1) {
    throw ShapeError(
        concat("[BucketBias] table: must be [rows, heads] with at least one row, got shape ", table.value.shape));
  }
  check_tensor("BucketBias", "table", table.value);
  check_grad("BucketBias", "table", table);
}

}  // namespace

Index BucketDifference::rows() const {
  check_clip("BucketDifference", clip);
  return 2 * clip + 1 + (pairs == BucketPairs::all ? 0 : 1);
}

template <class A>
BucketBias<A>::BucketBias(View<const std::int32_t, 4> index, Param<A, 2> table)
    : by_(By::index), table_(table), index_(index) {
  check_index(index);
}

template <class A>
BucketBias<A>::BucketBias(View<const Index, 4> index, Param<A, 2> table)
    : by_(By::wide_index), table_(table), wide_index_(index) {
  check_index(index);
}

template <class A>
BucketBias<A>::BucketBias(const BucketDifference& difference, Param<A, 2> table, const BucketTokens& queries,
                          const BucketTokens& keys)
    : by_(By::difference), table_(table), difference_(difference), queries_(queries), keys_(keys) {
  check_clip("BucketBias", difference.clip);
  check_table(table);
  if (table.value.shape[0] != difference.rows()) {
    throw ShapeError(concat("[BucketBias] table: must be [", difference.rows(), ", heads] for a clip of ",
                            difference.clip, ", got shape ", table.value.shape));
  }
  check_tokens("queries", queries);
  check_tokens("keys", keys);
}

template <class A>
template <class I>
void BucketBias<A>::check_index(const View<const I, 4>& index) const {
  check_table(table_);
  check_tensor("BucketBias", "index", index);
  const auto [batch, heads, q_len, k_len] = index.shape;
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < q_len; ++i) {
        for (Index j = 0; j < k_len; ++j) {
          const Index row = index(b, h, i, j);
          if (row >= none && row < table_.value.shape[0]) continue;
          throw RangeError(concat("[BucketBias] index: must be -1 (nothing) to ", table_.value.shape[0] - 1,
                                  ", the last row of the table, got ", row, " at [batch ", b, ", head ", h, ", query ",
                                  i, ", key ", j, "]"));
        }
      }
    }
  }
}

template <class A>
void BucketBias<A>::check_tokens(const char* name, const BucketTokens& tokens) const {
  const auto& [attribute, group] = tokens;
  check_tensor("BucketBias", name, attribute);
  const bool grouped = difference_.pairs != BucketPairs::all;
  if (!grouped && group.data != nullptr) {
    throw ShapeError(concat("[BucketBias] ", name, ".group: must be left out where all pairs have a difference"));
  }
  if (grouped && (group.shape != attribute.shape || (group.data == nullptr && group.size() > 0))) {
    throw ShapeError(concat("[BucketBias] ", name, ".group: must have the shape of the attribute, ", attribute.shape,
                            ", got ", group.data == nullptr ? "nothing" : concat("shape ", group.shape)));
  }
  if (grouped) check_tensor("BucketBias", name, group);
  for (Index b = 0; b < attribute.shape[0]; ++b) {
    for (Index t = 0; t < attribute.shape[1]; ++t) {
      if (attribute(b, t) >= -max_position && attribute(b, t) <= max_position) continue;
      throw RangeError(concat("[BucketBias] ", name, ".attribute: must be within ±2^31, got ", attribute(b, t),
                              " for token ", t, " of sequence ", b));
    }
  }
}

template <class A>
void BucketBias<A>::check(const char* function, const Problem& problem) const {
  if (table_.value.shape[1] != problem.heads) {
    throw ShapeError(concat("[", function, "] BucketBias.table: must have a column for each of ", problem.heads,
                            " heads, got shape ", table_.value.shape));
  }
  if (by_ != By::difference) {
    const std::array<Index, 4> all = {problem.batch, problem.heads, problem.q_len, problem.k_len};
    const std::array<Index, 4> shape = index_shape();
    const bool fits = (shape[0] == 1 || shape[0] == all[0]) && (shape[1] == 1 || shape[1] == all[1]) &&
                      shape[2] == all[2] && shape[3] == all[3];
    if (fits) return;
    throw ShapeError(concat("[", function, "] BucketBias.index: must be [batch or 1, heads or 1, q_len, k_len] of ",
                            all, ", got shape ", shape));
  }
  const auto check_time = [&](const char* name, const BucketTokens& tokens, Index time) {
    const auto& shape = tokens.attribute.shape;
    if ((shape[0] == 1 || shape[0] == problem.batch) && shape[1] == time) return;
    throw ShapeError(concat("[", function, "] BucketBias.", name, ": must be [batch or 1, tokens] of ",
                            std::array<Index, 2>{problem.batch, time}, ", got shape ", shape));
  };
  check_time("queries", queries_, problem.q_len);
  check_time("keys", keys_, problem.k_len);
}

template <class A>
Index BucketBias<A>::row(Index batch, Index head, Index i, Index j) const {
  if (by_ != By::difference) {
    const std::array<Index, 4> shape = index_shape();
    const Index b = kept_at(shape[0], batch), h = kept_at(shape[1], head);
    const Index row = by_ == By::index ? index_(b, h, i, j) : wide_index_(b, h, i, j);
    return row < table_.value.shape[0] ? row : none;  // whoever wrote to the index since, it reads no other memory
  }
  const Index b_i = kept_at(queries_.attribute.shape[0], batch), b_j = kept_at(keys_.attribute.shape[0], batch);
  if (difference_.pairs != BucketPairs::all) {
    const bool same = queries_.group(b_i, i) == keys_.group(b_j, j);
    if (same != (difference_.pairs == BucketPairs::same_group)) return 2 * difference_.clip + 1;
  }
  const Index difference = queries_.attribute(b_i, i) - keys_.attribute(b_j, j);
  return std::clamp(difference, -difference_.clip, difference_.clip) + difference_.clip;
}

/// body(i, j, row of the table) for a tile's scores that have one.
template <class A>
template <class Body>
void BucketBias<A>::over_rows(const Tile<A>& tile, const Body& body) const {
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < tile.cols; ++j) {
      const Index met = row(tile.batch, tile.head, tile.row + i, tile.col + j);
      if (met >= 0) body(i, j, met);
    }
  }
}

template <class A>
void BucketBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  over_rows(tile, [&](Index i, Index j, Index met) { s[i * tile.stride + j] += table_.value(met, tile.head); });
}

template <class A>
void BucketBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  over_rows(tile, [&](Index i, Index j, Index met) { grads.params[met] += d_s[i * tile.stride + j]; });
}

template <class A>
void BucketBias<A>::borrows(MemoryList& to) const {
  to.param("BucketBias.table", table_);
  to.reads("BucketBias.index", index_), to.reads("BucketBias.index", wide_index_);
  to.reads("BucketBias.queries.attribute", queries_.attribute), to.reads("BucketBias.queries.group", queries_.group);
  to.reads("BucketBias.keys.attribute", keys_.attribute), to.reads("BucketBias.keys.group", keys_.group);
}

template class BucketBias<float>;
template class BucketBias<double>;

template <>
struct describe::Words<BucketPairs> {
  static constexpr const char* all[] = {"all", "same_group", "other_group"};
};

namespace {

using MaybeDifference = std::optional<BucketDifference>;
using Numbers2 = View<const Index, 2>;

struct MakeBucketBias {
  template <class A>
  BucketBias<A> operator()(const MaybeDifference& difference, const Param<A, 2>& table,
                           const View<const Index, 4>& index, const Numbers2& q_attribute, const Numbers2& k_attribute,
                           const Numbers2& q_group, const Numbers2& k_group) const {
    if (difference.has_value() == (index.data != nullptr)) {
      throw ShapeError(concat("[BucketBias] index: must be given, or a spec with attributes, got ",
                              difference ? "both" : "neither"));
    }
    if (!difference) return {index, table};
    return {*difference, table, {q_attribute, q_group}, {k_attribute, k_group}};
  }
};

/// Lengths of paths in a ring of `length` nodes: an index, as of a graph. Fewer queries are the last tokens.
inspect::Specimen ring_example(const ExampleSize& size, const MaybeDifference&) {
  const Index length = size.length, rows = length / 2 + 1;
  inspect::Specimen specimen{.options = size, .by_index = true};
  specimen.parameters = specimen.held = rows * size.heads;
  const auto table = std::make_shared<const std::vector<double>>(describe::normals(rows * size.heads, 1, size.seed));
  specimen.score_terms = [table, length, rows, heads = size.heads](const Positions&, const Positions&,
                                                                   View<const double, 4> q, View<const double, 4> k,
                                                                   View<double, 4> scores, const Executor& on) {
    const Index q_len = q.shape[2], k_len = k.shape[2];
    std::vector<Index> index;
    for (Index i = 0; i < q_len; ++i) {
      for (Index j = 0; j < k_len; ++j) {
        const Index apart = std::abs(k_len - q_len + i - j) % length;
        index.push_back(std::min(apart, length - apart));
      }
    }
    const BucketBias<double> encoding(dense<const Index>(index.data(), 1, 1, q_len, k_len),
                                      {dense<const double>(table->data(), rows, heads)});
    bearing::add_scores(with(encoding), {}, scores, on);
  };
  return specimen;
}

}  // namespace

void describe_bucket_bias(Describer& to) {
  to.home("bucket_bias", {"Ying et al.", 2021, "arXiv 2106.05234"});
  to.record("BucketDifference", BucketDifference{},
            "Buckets of token pairs by the difference of a whole number that each token has, its attribute a.\n\n"
            "    row = clip(a_i - a_j, -clip, clip) + clip        query minus key\n"
            "    row = 2 clip + 1                                 for pairs that have no difference\n\n"
            "Abramson et al. 2024, AlphaFold 3, Algorithm 3 of the supplement.")
      .member("clip", &BucketDifference::clip,
              "Larger differences count as this one: 32 for residues and tokens, 2 for chains.")
      .member("pairs", &BucketDifference::pairs, "Which pairs have a difference. The others share the last row.")
      .method("rows", &BucketDifference::rows, {},
              "Rows of the table: 2 clip + 1, and one more for pairs without a difference, if there can be any.");
  const auto rows = [](const Record& spec, const Sizes&) {
    return spec ? spec.as<BucketDifference>()->rows() : Extent::any;
  };
  to.encoding<MaybeDifference, 2, -4, -2, -2, -2, -2>(
        "BucketBias",
        "A learned number for each head and bucket of token pairs. The buckets are given.\n\n"
        "    s_ij <- s_ij + table[index[i, j], h]\n\n"
        "table [rows, heads]; index [batch or 1, heads or 1, q_len, k_len], -1 where nothing is added. With a spec,\n"
        "in place of index: attributes of the tokens [batch or 1, tokens], and groups if the spec tells pairs apart by "
        "them.\n\n"
        "Ying et al. 2021, arXiv 2106.05234; Graham et al. 2021, arXiv 2104.01136; AlphaFold 3.",
        {Parameter("table", {{"rows", rows}, "heads"}, "A number for each bucket and head.")
             .starts(normal(0.02))
             .draws(normal(1))
             .is_picked_from(),
         Parameter("index", {or_one("batch"), or_one("heads"), "q_len", "k_len"}, "The bucket of each pair.")
             .of_indices()
             .may_be_left_out(),
         Parameter("q_attribute", {or_one("batch"), "q_len"}, "The attribute of each query.")
             .of_indices()
             .may_be_left_out(),
         Parameter("k_attribute", {or_one("batch"), "k_len"}, "The attribute of each key.")
             .of_indices()
             .may_be_left_out(),
         Parameter("q_group", {or_one("batch"), "q_len"}, "The group of each query.").of_indices().may_be_left_out(),
         Parameter("k_group", {or_one("batch"), "k_len"}, "The group of each key.").of_indices().may_be_left_out()},
        MakeBucketBias{})
      .form(Form::grid)
      .needs_one()
      .by_index()
      .called("bucket_bias", "buckets of token pairs", "a learned bias per bucket of a pair, as an index says")
      .also({"graphormer", "levit", "spatial_encoding", "alphafold"})
      .example(ring_example);
}

}  // namespace bearing
