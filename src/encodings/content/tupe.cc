#include <algorithm>
#include <bearing/encodings/tupe.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "terms/tile_kernels.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

double tupe_softmax_scale(Index dim) {
  if (dim < 1) throw RangeError(concat("[tupe_softmax_scale] dim: must be at least 1, got ", dim));
  return 1 / std::sqrt(2 * static_cast<double>(dim));
}

namespace {

template <class A>
void check_vectors(const char* name, const Param<A, 3>& table, Index least) {
  const auto &shape = table.value.shape, &stride = table.value.stride;
  if (shape[0] < 1 || shape[1] < least || shape[2] < 1 || (stride[2] != 1 && shape[2] > 1)) {
    throw ShapeError(concat("[TupeBias] ", name, ": must be [heads, rows, dim] of at least ", least,
                            " rows with features side by side, got shape ", shape, ", strides ", stride));
  }
  check_tensor("TupeBias", name, table.value);
  check_param("TupeBias", name, table, shape, "[heads, rows, dim]");
}

void check_positions(const char* function, const char* argument, const Positions& at, Index batch, Index time,
                     Index length) {
  check_whole(function, argument, "Tupe", at, batch, time);
  for (Index b = 0; b < batch; ++b) {
    for (Index t = 0; t < time; ++t) {
      const double p = at.real(0, b, t);
      if (p >= 0 && p < static_cast<double>(length)) continue;
      throw RangeError(concat("[", function, "] ", argument, ": must be from 0 to ", length - 1,
                              ", as Tupe has no other vectors, got ", p, " for token ", t, " of sequence ", b));
    }
  }
}

}  // namespace

template <class A>
TupeBias<A>::TupeBias(const Tupe& tupe, Param<A, 3> query, Param<A, 3> key, Param<A, 2> bias)
    : first_(tupe.cls == TupeCls::untied ? 1 : 0), query_(query), key_(key), bias_(bias) {
  check_vectors("query", query, first_ + 1);
  check_vectors("key", key, first_ + 1);
  check_param("TupeBias", "key", key, query.value.shape, "of the shape of query");
  scale_ = static_cast<A>(tupe_softmax_scale(dim()));
  if (tupe.rel_pos_bins < 0) {
    throw RangeError(concat("[TupeBias] rel_pos_bins: must be at least 0, got ", tupe.rel_pos_bins));
  }
  if (tupe.rel_pos_bins == 0) {
    if (bias.value.data == nullptr && bias.grad.data == nullptr) return;
    throw ShapeError("[TupeBias] bias: must be empty, as the spec has no rel_pos_bins");
  }
  try {
    buckets_.emplace(
        T5{.buckets = tupe.rel_pos_bins, .max_distance = tupe.max_rel_pos, .direction = T5Direction::bidirectional});
  } catch (const RangeError& error) {
    throw RangeError(concat("[TupeBias] rel_pos_bins, max_rel_pos: must be numbers that T5 takes, got ",
                            tupe.rel_pos_bins, ", ", tupe.max_rel_pos, ": ", error.what()));
  }
  check_param("TupeBias", "bias", bias, {tupe.rel_pos_bins + first_, heads()},
              untied() ? "[rel_pos_bins + 1, heads]" : "[rel_pos_bins, heads]");
}

template <class A>
void TupeBias<A>::check(const char* function, const Problem& problem) const {
  if (heads() != problem.heads) {
    throw ShapeError(
        concat("[", function, "] Tupe.query: must be for ", problem.heads, " heads, got shape ", query_.value.shape));
  }
  check_positions(function, "q_positions", *problem.q_positions, problem.batch, problem.q_len, length());
  check_positions(function, "k_positions", *problem.k_positions, problem.batch, problem.k_len, length());
}

/// The position vectors of a tile's queries or keys.
template <class A>
struct TupeBias<A>::Rows {
  const A* data;
  Index stride;
};

template <class A>
auto TupeBias<A>::rows_of(const Param<A, 3>& table, Index head, const double* at, Index n, bool consecutive,
                          A* room) const -> Rows {
  const auto row = [&](Index i) { return &table.value(head, static_cast<Index>(at[i]) + first_, Index{0}); };
  if (consecutive) return {row(0), table.value.stride[1]};
  for (Index i = 0; i < n; ++i) std::copy_n(row(i), dim(), room + i * dim());
  return {room, dim()};
}

template <class A>
A TupeBias<A>::theta(Index head, Index row) const {
  A sum = 0;
  for (Index d = 0; d < dim(); ++d) sum += query_.value(head, row, d) * key_.value(head, row, d);
  return scale_ * sum;
}

template <class A>
void TupeBias<A>::theta_grads(Index head, Index row, A d_theta, A* d_query, A* d_key) const {
  for (Index d = 0; d < dim(); ++d) {
    if (d_query != nullptr) d_query[row * dim() + d] += scale_ * d_theta * key_.value(head, row, d);
    if (d_key != nullptr) d_key[row * dim() + d] += scale_ * d_theta * query_.value(head, row, d);
  }
}

/// Puts [CLS]'s scores in place of what a token at 0 would have: its column, then its row.
template <class A>
void TupeBias<A>::add_cls(const Tile<A>& tile, A* added) const {
  const double *q_positions = tile.q_positions[0], *k_positions = tile.k_positions[0];
  if (std::find(k_positions, k_positions + tile.cols, 0.0) != k_positions + tile.cols) {
    const A to_cls = theta(tile.head, 1) + (buckets_ ? bias_.value(buckets_->spec().buckets, tile.head) : A{0});
    for (Index j = 0; j < tile.cols; ++j) {
      for (Index i = 0; k_positions[j] == 0 && i < tile.rows; ++i) added[i * tile.cols + j] = to_cls;
    }
  }
  if (std::find(q_positions, q_positions + tile.rows, 0.0) != q_positions + tile.rows) {
    const A from_cls = theta(tile.head, 0) + (buckets_ ? bias_.value(buckets_->spec().buckets / 2, tile.head) : A{0});
    for (Index i = 0; i < tile.rows; ++i) {
      if (q_positions[i] == 0) std::fill_n(added + i * tile.cols, tile.cols, from_cls);
    }
  }
}

/// The gradients of add_cls(); takes what it has used out of d_added.
template <class A>
void TupeBias<A>::cls_grads(const Tile<A>& tile, A* d_added, A* d_query, A* d_key, A* d_bias) const {
  A d_from = 0, d_to = 0;
  for (Index i = 0; i < tile.rows; ++i) {
    A* row = d_added + i * tile.cols;
    for (Index j = 0; j < tile.cols; ++j) {
      if (tile.q_positions[0][i] != 0 && tile.k_positions[0][j] != 0) continue;
      (tile.q_positions[0][i] == 0 ? d_from : d_to) += row[j];
      row[j] = 0;
    }
  }
  theta_grads(tile.head, 0, d_from, d_query, d_key);
  theta_grads(tile.head, 1, d_to, d_query, d_key);
  if (d_bias == nullptr) return;
  d_bias[buckets_->spec().buckets / 2] += d_from;
  d_bias[buckets_->spec().buckets] += d_to;
}

template <class A>
void TupeBias<A>::add_bias(const Tile<A>& tile, A* added) const {
  const auto b = [&](double distance) { return bias_.value((*buckets_)(static_cast<Index>(distance)), tile.head); };
  if (tile.consecutive) {
    A* diagonals = added + tile.rows * tile.cols;
    const double first = tile.k_positions[0][0] - tile.q_positions[0][tile.rows - 1];
    for (Index d = 0; d < tile.rows + tile.cols - 1; ++d) diagonals[d] = b(first + static_cast<double>(d));
    return tiles::add_toeplitz(tile.rows, tile.cols, diagonals, added, tile.cols);
  }
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < tile.cols; ++j)
      added[i * tile.cols + j] += b(tile.k_positions[0][j] - tile.q_positions[0][i]);
  }
}

template <class A>
void TupeBias<A>::bias_grads(const Tile<A>& tile, const A* d_added, A* d_bias) const {
  const auto add = [&](double distance, A d_b) { d_bias[(*buckets_)(static_cast<Index>(distance))] += d_b; };
  if (tile.consecutive) {
    A* diagonals = tile.scratch + tile.rows * tile.cols;
    const Index n = tile.rows + tile.cols - 1;
    std::fill_n(diagonals, n, A{0});
    tiles::sum_diagonals(tile.rows, tile.cols, d_added, tile.cols, diagonals);
    const double first = tile.k_positions[0][0] - tile.q_positions[0][tile.rows - 1];
    for (Index d = 0; d < n; ++d) add(first + static_cast<double>(d), diagonals[d]);
    return;
  }
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < tile.cols; ++j)
      add(tile.k_positions[0][j] - tile.q_positions[0][i], d_added[i * tile.cols + j]);
  }
}

template <class A>
Index TupeBias<A>::scratch_size(Index rows, Index cols) const {
  return rows * cols + (rows + cols) * (dim() + 1);  // what is added, its diagonals, position vectors
}

template <class A>
void TupeBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  A *added = tile.scratch, *room = added + tile.rows * tile.cols + tile.rows + tile.cols;
  const Rows q = rows_of(query_, tile.head, tile.q_positions[0], tile.rows, tile.consecutive, room);
  const Rows k = rows_of(key_, tile.head, tile.k_positions[0], tile.cols, tile.consecutive, room + tile.rows * dim());
  tiles::multiply_nt(tile.rows, tile.cols, dim(), scale_, q.data, q.stride, k.data, k.stride, added, tile.cols);
  if (buckets_) add_bias(tile, added);
  if (untied()) add_cls(tile, added);
  for (Index i = 0; i < tile.rows; ++i) {
    tiles::add_toeplitz(1, tile.cols, added + i * tile.cols, s + i * tile.stride, tile.stride);
  }
}

template <class A>
void TupeBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  const auto [d_query, d_key, d_bias] = grad_block(0, tile.head).split(grads.params);

  A *d_added = tile.scratch, *room = d_added + tile.rows * tile.cols + tile.rows + tile.cols;
  for (Index i = 0; i < tile.rows; ++i) std::copy_n(d_s + i * tile.stride, tile.cols, d_added + i * tile.cols);
  if (untied()) cls_grads(tile, d_added, d_query, d_key, d_bias);
  if (d_bias != nullptr) bias_grads(tile, d_added, d_bias);

  // added = scale · query rows · key rowsᵀ
  const Index rows = tile.rows, cols = tile.cols;
  const auto row = [&](double position) { return (static_cast<Index>(position) + first_) * dim(); };
  if (d_query != nullptr) {
    const Rows k = rows_of(key_, tile.head, tile.k_positions[0], cols, tile.consecutive, room);
    const Index together = tile.consecutive ? rows : 1;
    for (Index i = 0; i < rows; i += together) {
      tiles::add_multiply_nn(together, cols, dim(), scale_, d_added + i * cols, cols, k.data, k.stride,
                             d_query + row(tile.q_positions[0][i]), dim());
    }
  }
  if (d_key != nullptr) {
    const Rows q = rows_of(query_, tile.head, tile.q_positions[0], rows, tile.consecutive, room);
    const Index together = tile.consecutive ? cols : 1;
    for (Index j = 0; j < cols; j += together) {
      tiles::add_multiply_tn(rows, together, dim(), scale_, d_added + j, cols, q.data, q.stride,
                             d_key + row(tile.k_positions[0][j]), dim());
    }
  }
}

template class TupeBias<float>;
template class TupeBias<double>;

template <>
struct describe::Words<TupeCls> {
  static constexpr const char* all[] = {"untied", "tied"};
};

namespace {

/// p U by head, rows [heads, time, dim], of p [time, dim] and U [dim, heads dim]; both normal.
void project(const Filling& all, std::span<const double> p, std::span<const double> u) {
  const Index heads = all.extents[0], time = all.extents[1], dim = all.extents[2];
  for (Index h = 0; h < heads; ++h) {
    for (Index t = 0; t < time; ++t) {
      double* row = all.numbers.data() + (h * time + t) * dim;
      std::fill_n(row, dim, 0.0);
      for (Index c = 0; c < dim; ++c) {  // side by side in memory, and each sum still in order
        const double times = p[static_cast<std::size_t>(t * dim + c)];
        const double* of = u.data() + (c * heads + h) * dim;
        for (Index d = 0; d < dim; ++d) row[d] += times * of[d];
      }
    }
  }
}

/// Projected vectors of a model that is one head wide: both projections see the same positions.
Rule projected(std::uint64_t which) {
  return {"projections of the same normal vectors", [which](const Filling& all) {
            const Index heads = all.extents[0], time = all.extents[1], dim = all.extents[2];
            const std::uint64_t seed = all.seed - which;  // of the first parameter
            const double scale = 1 / std::sqrt(static_cast<double>(dim));
            project(all, describe::normals(time * dim, 1, seed),
                    describe::normals(dim * heads * dim, scale, seed + 100 + which));
          }};
}

/// A model learns the vectors and both projections, and holds what they make as well.
inspect::Specimen counted_example(const ExampleSize& size, const Tupe& tupe) {
  inspect::Specimen specimen = inspect::example_of(*registry().find("tupe"), size, Record::of(tupe));
  const Index vectors = size.length + (tupe.cls == TupeCls::untied ? 1 : 0);
  const Index learned = vectors * size.dim + 2 * size.dim * size.heads * size.dim;
  specimen.parameters += learned - 2 * size.heads * vectors * size.dim;
  specimen.held += learned;
  return specimen;
}

}  // namespace

void describe_tupe(Describer& to) {
  to.home("tupe", {"Ke et al.", 2021, "arXiv 2006.15595"});
  to.record("Tupe", Tupe{},
            "TUPE, untied positional encoding: words times words, positions times positions, never mixed.\n\n"
            "    s_ij <- s_ij + (p_m U_Q)(p_n U_K)/sqrt(2d) [+ b_h(bucket(n - m))]        TUPE-A [TUPE-R]\n\n"
            "Ke, He, Liu 2021, arXiv 2006.15595.")
      .member("rel_pos_bins", &Tupe::rel_pos_bins, "How many buckets distances fall into: 0 for TUPE-A, 32 in TUPE-R.")
      .member("max_rel_pos", &Tupe::max_rel_pos, "Keys so many tokens away and further share the last bucket.")
      .member("cls", &Tupe::cls,
              "'untied': the token at position 0 is [CLS], and has two numbers per head instead of positions.");
  const auto untied = [](const Record& spec) { return spec.as<Tupe>()->cls == TupeCls::untied ? Index{1} : Index{0}; };
  const NamedExtent time("length, and 1 with [CLS] untied", [untied](const Record& spec, const Sizes& sizes) {
    return sizes.length == 0 ? Extent::any : sizes.length + untied(spec);
  });
  const NamedExtent bins("rel_pos_bins, and 1 with [CLS] untied", [untied](const Record& spec, const Sizes&) {
    return spec.as<Tupe>()->rel_pos_bins + untied(spec);
  });
  const auto with_bins = [](Index count) {
    return [count](const ExampleSize&) { return Tupe{.rel_pos_bins = count}; };
  };
  to.encoding<Tupe, 3, 3, 2>(
        "TupeBias",
        "TUPE's term, for whole positions 0 ... length - 1.\n\n"
        "    s_ij <- s_ij + (p_m U_Q)(p_n U_K)/sqrt(2d) [+ b_h(bucket(n - m))]\n\n"
        "query, key [heads, length + 1, dim] ([heads, length, dim] if [CLS] is tied): the projected position vectors.\n"
        "bias [rel_pos_bins + 1, heads] ([rel_pos_bins, heads]) in TUPE-R, else None.\n\n"
        "Ke, He, Liu 2021, arXiv 2006.15595.",
        {Parameter("query", {"heads", time, "dim"}, "Position vectors, projected as queries.")
             .starts(normal(0.02))
             .draws(projected(0)),
         Parameter("key", {"heads", time, "dim"}, "Position vectors, projected as keys.")
             .starts(normal(0.02))
             .draws(projected(1)),
         Parameter("bias", {bins, "heads"}, "A number for each bucket and head, in TUPE-R.")
             .starts(normal(0.02))
             .draws(normal(1))
             .only_if([](const Record& spec) { return spec.as<Tupe>()->rel_pos_bins > 0; })},
        make_with_spec<TupeBias>)
      .form(Form::positions)
      .whole_positions()
      .both_sides()
      .softmax_scale([](const Tupe&, Index dim) { return tupe_softmax_scale(dim); })
      .called("tupe", "TUPE-A", "position meets position, apart from words", with_bins(0))
      .also({"tupe_a"})
      .example(counted_example)
      .called("tupe_r", "TUPE-R", "TUPE with T5 buckets", with_bins(32))
      .example(counted_example);
  to.function("tupe_softmax_scale", tupe_softmax_scale, {"dim"},
              "Returns the softmax scale 1/sqrt(2 dim), for words as for positions.");
}

}  // namespace bearing
