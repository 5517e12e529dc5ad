#include <algorithm>
#include <bearing/encodings/deberta.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "terms/tile_kernels.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

/// Tiles are worked on in blocks of 64 by 64 scores. Consecutive ones have 127 distances and meet at most as many rows
/// of a table; where others meet more, each score is a product of its own.
constexpr Index block = 64, most_met = 2 * block - 1;
/// No two positions are further apart.
constexpr Index most_distance = 2 * max_position;

void check_spec(const char* function, const Deberta& deberta) {
  const Index span = deberta.max_relative_positions, buckets = deberta.position_buckets;
  if (span < 1) {
    throw RangeError(concat("[", function, "] max_relative_positions: must be at least 1, got ", span));
  }
  if (buckets < 0 || buckets == 1) {
    throw RangeError(concat("[", function, "] position_buckets: must be 0 (none) or at least 2, got ", buckets));
  }
  if (buckets > 0 && span - 1 <= buckets / 2) {
    throw RangeError(concat("[", function, "] max_relative_positions: must be at least ", buckets / 2 + 2, " for ",
                            buckets, " position_buckets, got ", span));
  }
  if (span > max_position || buckets > max_position) {
    throw RangeError(concat("[", function, "] max_relative_positions, position_buckets: must be at most ", max_position,
                            ", got ", span, ", ", buckets));
  }
}

/// The bucket of a whole |x|, for a spec with buckets.
Index log_bucket(const Deberta& deberta, Index size) {
  const Index mid = deberta.position_buckets / 2;
  if (size <= mid) return size;
  const auto from = static_cast<double>(mid);
  const double reach = std::log(static_cast<double>(deberta.max_relative_positions - 1) / from);
  double part = std::log(static_cast<double>(size) / from) / reach * (from - 1);
  // Where the logarithms are in a whole ratio, rounding must not lift it: three roundings of numbers up to mid.
  if (const double whole = std::round(part); std::abs(part - whole) <= from * 0x1p-50) part = whole;
  return mid + static_cast<Index>(std::ceil(part));
}

/// For each bucket past mid the least distance that reaches it.
std::vector<Index> thresholds(const Deberta& deberta) {
  std::vector<Index> from;
  Index below = deberta.position_buckets / 2;  // never reaches what is searched for
  for (Index bucket = below + 1; bucket <= deberta.position_buckets; ++bucket) {
    Index step = 1;
    while (below + step <= most_distance && log_bucket(deberta, below + step) < bucket) step *= 2;
    Index above = std::min(below + step, most_distance + 1);  // reaches it, or is past every distance
    Index low = below;
    while (above - low > 1) {
      const Index middle = low + (above - low) / 2;
      (log_bucket(deberta, middle) < bucket ? low : above) = middle;
    }
    from.push_back(above);
    below = above - 1;
  }
  return from;
}

template <class A>
void check_table(const char* name, const Param<A, 3>& table, bool used, Index rows) {
  if (!used) {
    if (table.value.data == nullptr && table.grad.data == nullptr) return;
    throw ShapeError(concat("[DebertaTerm] ", name, ": must be empty, as the spec switches its term off"));
  }
  const auto& shape = table.value.shape;
  if (table.value.data == nullptr || shape[1] != rows || shape[2] < 1 || (table.value.stride[2] != 1 && shape[2] > 1)) {
    throw ShapeError(concat("[DebertaTerm] ", name, ": must be [heads, ", rows,
                            ", dim] with features side by side, got shape ", shape, ", strides ", table.value.stride));
  }
  if (table.grad.data != nullptr && table.grad.shape != shape) {
    throw ShapeError(
        concat("[DebertaTerm] ", name, ".grad: must have the shape of the table, ", shape, ", got ", table.grad.shape));
  }
}

}  // namespace

Index deberta_bucket(const Deberta& deberta, Index distance) {
  check_spec("deberta_bucket", deberta);
  if (distance < -most_distance || distance > most_distance) {
    throw RangeError(
        concat("[deberta_bucket] distance: must be at most ", most_distance, " either way, got ", distance));
  }
  const Index x = -distance;
  if (deberta.position_buckets == 0) return x;
  return x < 0 ? -log_bucket(deberta, -x) : log_bucket(deberta, x);
}

double deberta_softmax_scale(const Deberta& deberta, Index dim) {
  if (dim < 1) throw RangeError(concat("[deberta_softmax_scale] dim: must be at least 1, got ", dim));
  const Index products = 1 + (deberta.c2p ? 1 : 0) + (deberta.p2c ? 1 : 0);
  return 1 / std::sqrt(static_cast<double>(dim * products));
}

template <class A>
DebertaTerm<A>::DebertaTerm(const Deberta& deberta, Param<A, 3> key, Param<A, 3> query)
    : deberta_(deberta), key_(key), query_(query) {
  check_spec("DebertaTerm", deberta);
  if (!deberta.c2p && !deberta.p2c) {
    throw RangeError("[DebertaTerm] c2p, p2c: one of them must be on, got neither");
  }
  check_table("key", key, deberta.c2p, 2 * deberta.span());
  check_table("query", query, deberta.p2c, 2 * deberta.span());
  if (deberta.c2p && deberta.p2c && key.value.shape != query.value.shape) {
    throw ShapeError(concat("[DebertaTerm] key, query: must have the same shape, got ", key.value.shape, " and ",
                            query.value.shape));
  }
  if (deberta.position_buckets > 0) from_ = thresholds(deberta);
}

template <class A>
void DebertaTerm<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "Deberta", deberta_.position_buckets == 0 || !from_.empty());
  const auto& shape = (deberta_.c2p ? key_ : query_).value.shape;
  if (shape[0] != problem.heads || shape[2] != problem.dim) {
    throw ShapeError(concat("[", function, "] Deberta.", deberta_.c2p ? "key" : "query",
                            ": must be for queries and keys of ", problem.heads, " heads of ", problem.dim,
                            " features, shape is ", shape));
  }
  check_whole(function, "Deberta", problem);
}

template <class A>
Index DebertaTerm<A>::row(Index x) const {
  const Index span = deberta_.span();
  Index size = std::abs(x);
  if (const Index mid = deberta_.position_buckets / 2; mid > 0 && size > mid) {
    size = mid + (std::upper_bound(from_.begin(), from_.end(), size) - from_.begin());
  }
  return std::clamp((x < 0 ? -size : size) + span, Index{0}, 2 * span - 1);
}

/// One of the two terms on a tile: x·table[row(distance)], x the queries or the keys.
template <class A>
struct DebertaTerm<A>::Side {
  const DebertaTerm& term;
  const Param<A, 3>* table;  ///< null: switched off
  bool of_key;               ///< x are the keys
  bool mirrored;             ///< the distance is taken from the other end
  const A* x;
  Index x_stride;
  A *d_x, *d_table;
  Index d_x_stride;

  /// The part of a tile that is worked on at once: its scores, and which rows of the table they meet.
  struct Part {
    Index row, col, rows, cols;
    Index low = 0, count = 0;
    std::array<std::int32_t, 2 * block> column{};  ///< of each diagonal, or of each score of one row
  };

  /// Far from the diagonal all scores of a part meet one row of the table.
  static tiles::Band one_row(const Part& part) { return {0, 1, part.rows + part.cols}; }

  Index table_row(double distance) const { return term.row(static_cast<Index>(mirrored ? distance : -distance)); }

  /// The rows of the table between those of two distances.
  void meet(Part& part, double one, double other) const {
    const auto [low, high] = std::minmax({table_row(one), table_row(other)});
    part.low = low;
    part.count = high - low + 1;
  }
  /// The columns of row i of a part in the products with the rows that it meets.
  const std::int32_t* columns(const Tile<A>& tile, Part& part, Index i) const {
    if (tile.consecutive) return part.column.data() + (part.rows - 1 - i);
    for (Index j = 0; j < part.cols; ++j) {
      const double distance = tile.k_positions[0][part.col + j] - tile.q_positions[0][part.row + i];
      part.column[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(table_row(distance) - part.low);
    }
    return part.column.data();
  }

  Part open(const Tile<A>& tile, Index row, Index col) const {
    Part part{row, col, std::min(block, tile.rows - row), std::min(block, tile.cols - col)};
    const double *q_positions = tile.q_positions[0] + row, *k_positions = tile.k_positions[0] + col;
    if (tile.consecutive) {
      const double first = k_positions[0] - q_positions[part.rows - 1];
      const Index diagonals = part.rows + part.cols - 1;
      meet(part, first, first + static_cast<double>(diagonals - 1));
      for (Index d = 0; d < diagonals; ++d) {
        part.column[static_cast<std::size_t>(d)] =
            static_cast<std::int32_t>(table_row(first + static_cast<double>(d)) - part.low);
      }
    } else {
      const auto [q_low, q_high] = std::minmax_element(q_positions, q_positions + part.rows);
      const auto [k_low, k_high] = std::minmax_element(k_positions, k_positions + part.cols);
      meet(part, *k_low - *q_high, *k_high - *q_low);
    }
    return part;
  }

  const A* vector(const Tile<A>& tile, Index r) const { return &table->value(tile.head, r, Index{0}); }

  /// body(part, first, n) for parts whose products fit the scratch, with which n queries or keys they have; each(r, i,
  /// j) for every score of the others, with the row of the table that it meets.
  template <class Body, class Each>
  void over_parts(const Tile<A>& tile, const Body& body, const Each& each) const {
    for (Index row = 0; row < tile.rows; row += block) {
      for (Index col = 0; col < tile.cols; col += block) {
        Part part = open(tile, row, col);
        if (part.count <= most_met) {
          body(part, of_key ? col : row, of_key ? part.cols : part.rows);
          continue;
        }
        for (Index i = 0; i < part.rows; ++i) {
          const std::int32_t* at = columns(tile, part, i);
          for (Index j = 0; j < part.cols; ++j) each(part.low + at[j], row + i, col + j);
        }
      }
    }
  }

  void add(const Tile<A>& tile, A* s) const {
    const auto by_part = [&](Part& part, Index first, Index n) {
      A* u = tile.scratch;
      tiles::multiply_nt(n, part.count, tile.dim, tile.scale, x + first * x_stride, x_stride, vector(tile, part.low),
                         table->value.stride[1], u, part.count);
      if (part.count == 1) {
        A* to = s + part.row * tile.stride + part.col;
        return of_key ? tiles::add_key_band(part.rows, part.cols, one_row(part), u, Index{1}, to, tile.stride)
                      : tiles::add_band(part.rows, part.cols, one_row(part), u, Index{1}, to, tile.stride);
      }
      if (tile.consecutive && !of_key) {
        A* to = s + part.row * tile.stride + part.col;
        return tiles::add_gathered(part.rows, part.cols, u, part.count, part.column.data(), to, tile.stride);
      }
      for (Index i = 0; i < part.rows; ++i) {
        const std::int32_t* at = columns(tile, part, i);
        A* to = s + (part.row + i) * tile.stride + part.col;
        const A* from = of_key ? u : u + i * part.count;
        const Index step = of_key ? part.count : 0;
        for (Index j = 0; j < part.cols; ++j) to[j] += from[j * step + at[j]];
      }
    };
    const auto by_score = [&](Index r, Index i, Index j) {
      A product = 0;
      tiles::multiply_nt(1, 1, tile.dim, tile.scale, x + (of_key ? j : i) * x_stride, x_stride, vector(tile, r),
                         Index{1}, &product, 1);
      s[i * tile.stride + j] += product;
    };
    over_parts(tile, by_part, by_score);
  }

  void add_grads(const Tile<A>& tile, const A* d_s) const {
    if (d_x == nullptr && d_table == nullptr) return;
    // u = scale · x · tableᵀ, for n rows of x and `count` rows of the table
    const auto products = [&](Index first, Index n, Index r, Index count, const A* d_u) {
      if (d_table != nullptr) {
        tiles::add_multiply_tn(n, count, tile.dim, tile.scale, d_u, count, x + first * x_stride, x_stride,
                               d_table + r * tile.dim, tile.dim);
      }
      if (d_x != nullptr) {
        tiles::add_multiply_nn(n, count, tile.dim, tile.scale, d_u, count, vector(tile, r), table->value.stride[1],
                               d_x + first * d_x_stride, d_x_stride);
      }
    };
    const auto by_part = [&](Part& part, Index first, Index n) {
      A* d_u = tile.scratch;
      std::fill_n(d_u, n * part.count, A{0});
      const A* d_part = d_s + part.row * tile.stride + part.col;
      if (part.count == 1 && of_key) {
        tiles::scatter_key_band(part.rows, part.cols, one_row(part), d_part, tile.stride, d_u, Index{1});
      } else if (part.count == 1) {
        tiles::scatter_band(part.rows, part.cols, one_row(part), d_part, tile.stride, d_u, Index{1});
      }
      for (Index i = 0; part.count > 1 && i < part.rows; ++i) {
        const std::int32_t* at = columns(tile, part, i);
        const A* from = d_s + (part.row + i) * tile.stride + part.col;
        A* to = of_key ? d_u : d_u + i * part.count;
        const Index step = of_key ? part.count : 0;
        for (Index j = 0; j < part.cols; ++j) to[j * step + at[j]] += from[j];  // s += u[row(distance)]
      }
      products(first, n, part.low, part.count, d_u);
    };
    const auto by_score = [&](Index r, Index i, Index j) {
      products(of_key ? j : i, 1, r, 1, d_s + i * tile.stride + j);
    };
    over_parts(tile, by_part, by_score);
  }
};

template <class A>
auto DebertaTerm<A>::sides(const Tile<A>& tile, const TileGrads<A>& grads) const -> std::array<Side, 2> {
  A *d_key = nullptr, *d_query = nullptr;
  if (grads.params != nullptr && grad_size(key_) > 0) d_key = grads.params;
  if (grads.params != nullptr && grad_size(query_) > 0) d_query = grads.params + grad_size(key_);
  const bool mirrored = deberta_.index == DebertaIndex::paper;
  return {Side{*this, deberta_.c2p ? &key_ : nullptr, false, false, tile.q, tile.q_stride, grads.d_q, d_key,
               grads.d_q_stride},
          Side{*this, deberta_.p2c ? &query_ : nullptr, true, mirrored, tile.k, tile.k_stride, grads.d_k, d_query,
               grads.d_k_stride}};
}

template <class A>
void DebertaTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  for (const Side& side : sides(tile, {})) {
    if (side.table != nullptr) side.add(tile, s);
  }
}

template <class A>
void DebertaTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  for (const Side& side : sides(tile, grads)) {
    if (side.table != nullptr) side.add_grads(tile, d_s);
  }
}

template <class A>
void DebertaTerm<A>::collect(Index, Index head, const A* d_params) const {
  for (const Param<A, 3>* table : {&key_, &query_}) {
    if (grad_size(*table) == 0) continue;
    for (Index r = 0; r < table->grad.shape[1]; ++r) {
      for (Index d = 0; d < table->grad.shape[2]; ++d) table->grad(head, r, d) += *d_params++;
    }
  }
}

template <class A>
Index DebertaTerm<A>::scratch_size(Index rows, Index cols) const {
  return std::min(block, std::max(rows, cols)) * std::min(most_met, 2 * deberta_.span());
}

template class DebertaTerm<float>;
template class DebertaTerm<double>;

template <>
struct describe::Words<DebertaIndex> {
  static constexpr const char* all[] = {"code", "paper"};
};

void describe_deberta(Describer& to) {
  to.home("deberta", {"He et al.", 2021, "arXiv 2006.03654"});
  to.record(
        "Deberta", Deberta{},
        "DeBERTa's disentangled attention: content meets position twice, as query (c2p) and as key (p2c).\n\n"
        "    s_ij <- s_ij + scale [q_i Kr[d] + k_j Qr[d']]        d = clamp(bucket(m - n) + span, 0, 2 span - 1)\n\n"
        "He, Liu, Gao, Chen 2021, arXiv 2006.03654; v3: arXiv 2111.09543.")
      .member("max_relative_positions", &Deberta::max_relative_positions,
              "Where a config says -1, its max_position_embeddings.")
      .member("position_buckets", &Deberta::position_buckets, "0 for none (-1 in a config).")
      .member("c2p", &Deberta::c2p, "Whether content meets position as query.")
      .member("p2c", &Deberta::p2c, "Whether content meets position as key.")
      .member("index", &Deberta::index, "'code' takes d' = d, as models were trained, 'paper' the bucket of n - m.")
      .method("span", &Deberta::span, {}, "Half the rows of the tables.");
  const NamedExtent rows("2 span", [](const Record& spec, const Sizes&) { return 2 * spec.as<Deberta>()->span(); });
  const auto buckets = [](Index count) {
    return [count](const ExampleSize&) { return Deberta{.position_buckets = count}; };
  };
  to.encoding<Deberta, 3, 3>(
        "DebertaTerm",
        "Both of DeBERTa's terms.\n\n"
        "    s_ij <- s_ij + scale [q_i Kr[d] + k_j Qr[d']]\n\n"
        "key is Kr, query is Qr, [heads, 2 spec.span(), dim]: the relative embeddings after their projections; None "
        "for a\n"
        "term that the spec switches off. scale is the caller's: deberta_softmax_scale(spec, dim).\n\n"
        "He, Liu, Gao, Chen 2021, arXiv 2006.03654.",
        {Parameter("key", {"heads", rows, "dim"}, "Kr: relative embeddings, projected as keys.")
             .starts(normal(0.02))
             .draws(normal(1))
             .may_be_left_out(),
         Parameter("query", {"heads", rows, "dim"}, "Qr: relative embeddings, projected as queries.")
             .starts(normal(0.02))
             .draws(normal(1))
             .may_be_left_out()},
        make_with_spec<DebertaTerm>)
      .form(Form::rows_by_index)
      .reads_content()
      .softmax_scale(deberta_softmax_scale)
      .called("deberta", "DeBERTa", "content meets distance both ways", buckets(0))
      .called("deberta_v2", "DeBERTa v2 and v3", "DeBERTa with buckets of distance", buckets(256))
      .also({"deberta_v3"});
  to.function(
      "deberta_bucket", deberta_bucket, {"spec", "distance"},
      "The bucket of a key at a distance n - m: key minus query, as everywhere here. The bucket has DeBERTa's own\n"
      "sign, query minus key, positive for keys before the query: make_log_bucket_position(r) is\n"
      "deberta_bucket(spec, -r).");
  to.function("deberta_softmax_scale", deberta_softmax_scale, {"spec", "dim"},
              "1/sqrt(dim (1 + terms)): the softmax scale of every product in the score.");
}

}  // namespace bearing
