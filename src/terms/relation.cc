#include "terms/relation.hpp"

#include <algorithm>
#include <bearing/kept.hpp>
#include <tuple>
#include <utility>

#include "terms/relation_packed.hpp"
#include "terms/relation_parts.hpp"

namespace bearing::relation {

namespace {

using By = Part::By;

/// What meets the table: queries or keys, or, where values are added, rows of the output.
template <class A>
struct Operands {
  Index dim;
  A scale;
  const A* x;
  Index x_stride;
  A* d_x = nullptr;  ///< null: no gradient is wanted
  Index d_x_stride = 0;
  A* d_params = nullptr;  ///< the block of the parameters' gradients; null: none is wanted
};

/// Rows that enter a product, or that one adds to.
template <class A>
struct Rows {
  A* data;
  Index stride;
};

/// A term on a tile: u = scale · (x + shift) · tableᵀ, then s_ij += u[i or j][column(i, j)]; and both transposed.
template <class A>
class Product {
 public:
  Product(const RowsByIndex<A>& term, const Tile<A>& tile, const Operands<A>& operands)
      : term_(term), tile_(tile), operands_(operands), parts_(term, tile), of_key_(term.operand == Side::key) {
    const auto& [table, shift] = std::tie(term.table, term.shift);
    const Index head = table.shape[0] == 1 ? 0 : tile.head;
    const Index row_stride = table.shape[1] == 1 ? 0 : table.stride[1];  // one row's stride may be anything
    zero_ = table.data + head * table.stride[0] + term.map.zero * row_stride;
    step_ = term.map.step * row_stride;
    if (shift.data != nullptr) shift_ = shift.data + tile.head * shift.stride[0];
  }

  void add(A* s) const {
    const auto at = [&](const Part& part) { return s + part.row * tile_.stride + part.col; };
    if (!kept_whole || !packs(term_.map, tile_))
      return parts_.each([&](const Part& part) { add_part(part, at(part)); });
    parts_.each_packed([&](const Part& part) {
      if (part.count == 1) return add_part(part, at(part));
      const PackedRows<A> rows(part, {vector(part.low), step_, operands_.dim, operands_.scale}, tile_.scratch);
      const auto operands = [&](Index first, Index n, A* room) { return shifted(first_of(part) + first, n, room); };
      if (of_key_) return rows.add_of_keys(operands, at(part), tile_.stride);
      rows.add_of_queries(operands, at(part), tile_.stride);
    });
  }

  void add_transposed(const A* d_s) const {
    A* d_table = gradient(term_.table_block);
    const bool of_x = operands_.d_x != nullptr || gradient(term_.shift_block) != nullptr;
    if (!of_x && d_table == nullptr) return;
    parts_.each([&](const Part& part) {
      const A* from = d_s + part.row * tile_.stride + part.col;
      if (part.by == By::product) return add_product_grads(part, from);
      A* d_u = tile_.scratch;
      std::fill_n(d_u, operands_of(part) * width(part), A{0});
      scatter(part, from, d_u);
      add_grads(part, first_of(part), operands_of(part), part.low, part.count, d_u, width(part));
    });
  }

 private:
  void add_part(const Part& part, A* to) const {
    A* u = tile_.scratch;
    const Rows<const A> x = shifted(first_of(part), operands_of(part), behind(part));
    if (part.by == By::product) return add_products(part, x, to);
    multiply(part, x, u);
    for (Index i = 0; part.by == By::score && i < operands_of(part); ++i) u[i * width(part) + part.count] = 0;
    gather(part, u, to);
  }

  Index operands_of(const Part& part) const { return of_key_ ? part.cols : part.rows; }
  Index first_of(const Part& part) const { return of_key_ ? part.col : part.row; }
  /// Numbers between the products of one operand and the next.
  static Index width(const Part& part) {
    if (part.by == By::product) return 0;  // its products are not kept
    return part.by == By::score ? part.count + 1 : part.count;
  }

  const A* vector(Index bucket) const { return zero_ + bucket * step_; }
  A* gradient(Index block) const {
    return !kept_whole || operands_.d_params == nullptr || block < 0 ? nullptr : operands_.d_params + block;
  }

  /// u = scale · x · tableᵀ; of one row as its product with all of x, which is faster.
  void multiply(const Part& part, const Rows<const A>& x, A* u) const {
    const Index n = operands_of(part), dim = operands_.dim;
    if (width(part) == 1) {
      return tiles::multiply_nt(Index{1}, n, dim, operands_.scale, vector(part.low), step_, x.data, x.stride, u, n);
    }
    tiles::multiply_nt(n, part.count, dim, operands_.scale, x.data, x.stride, vector(part.low), step_, u, width(part));
  }

  /// n operands from `first` on, with the shift added, in the room; where they lie if there is none.
  Rows<const A> shifted(Index first, Index n, A* room) const {
    const Rows<const A> x{operands_.x + first * operands_.x_stride, operands_.x_stride};
    if (shift_ == nullptr) return x;
    const Index dim = operands_.dim;
    for (Index i = 0; i < n; ++i) {
      for (Index d = 0; d < dim; ++d) room[i * dim + d] = x.data[i * x.stride + d] + shift_[d];
    }
    return {room, dim};
  }
  /// The scratch behind a part's products.
  A* behind(const Part& part) const { return tile_.scratch + operands_of(part) * width(part); }

  /// The gradients of n operands from `first` on and `count` rows of the table from bucket `low` on, from those of
  /// their products: d_table += scale · d_uᵀ · x, d_x += scale · d_u · table, which summed over the operands is the
  /// shift's.
  void add_grads(const Part& part, Index first, Index n, Index low, Index count, const A* d_u, Index stride) const {
    const Index dim = operands_.dim;
    const A scale = operands_.scale;
    if (A* d_table = gradient(term_.table_block); d_table != nullptr) {
      const Rows<const A> x = shifted(first, n, behind(part));
      tiles::add_multiply_tn(n, count, dim, scale, d_u, stride, x.data, x.stride,
                             d_table + (term_.map.zero + term_.map.step * low) * dim, term_.map.step * dim);
    }
    A *d_x = operands_.d_x, *d_shift = gradient(term_.shift_block);
    if (d_x != nullptr) d_x += first * operands_.d_x_stride;
    if (d_shift == nullptr && d_x == nullptr) return;
    if (d_shift == nullptr) {
      return tiles::add_multiply_nn(n, count, dim, scale, d_u, stride, vector(low), step_, d_x, operands_.d_x_stride);
    }
    A* both = behind(part);
    std::fill_n(both, n * dim, A{0});
    tiles::add_multiply_nn(n, count, dim, scale, d_u, stride, vector(low), step_, both, dim);
    for (Index i = 0; i < n; ++i) {
      for (Index d = 0; d < dim; ++d) {
        d_shift[d] += both[i * dim + d];
        if (d_x != nullptr) d_x[i * operands_.d_x_stride + d] += both[i * dim + d];
      }
    }
  }

  /// Where a part meets more rows than there is room for: a product for every score.
  void add_products(const Part& part, const Rows<const A>& x, A* s) const {
    std::array<std::int32_t, widest> room;
    for (Index i = 0; i < part.rows; ++i) {
      parts_.work_out(part, i, room.data());
      for (Index j = 0; j < part.cols; ++j) {
        if (room[static_cast<std::size_t>(j)] == part.count) continue;
        A product = 0;
        tiles::multiply_nt(Index{1}, Index{1}, operands_.dim, operands_.scale, x.data + (of_key_ ? j : i) * x.stride,
                           x.stride, vector(part.low + room[static_cast<std::size_t>(j)]), step_, &product, Index{1});
        s[i * tile_.stride + j] += product;
      }
    }
  }
  void add_product_grads(const Part& part, const A* d_s) const {
    std::array<std::int32_t, widest> room;
    for (Index i = 0; i < part.rows; ++i) {
      parts_.work_out(part, i, room.data());
      for (Index j = 0; j < part.cols; ++j) {
        const Index column = room[static_cast<std::size_t>(j)];
        if (column == part.count) continue;
        add_grads(part, of_key_ ? part.col + j : part.row + i, 1, part.low + column, 1, d_s + i * tile_.stride + j, 1);
      }
    }
  }

  /// s_ij += u[i or j][column(i, j)]
  void gather(const Part& part, const A* u, A* s) const {
    if (part.by == By::band) {
      const auto add = of_key_ ? tiles::add_key_band<A> : tiles::add_band<A>;
      return add(part.rows, part.cols, part.band, u, part.count, s, tile_.stride);
    }
    std::array<std::int32_t, widest> room;
    const std::int32_t* column = nullptr;
    Index offset = 0;
    for (Index i = 0; i < part.rows; ++i) {
      A* to = s + i * tile_.stride;
      if (i == 0 || !parts_.as_before(part, i)) column = parts_.columns(part, i, offset, room.data());
      const Index first = (of_key_ ? 0 : i * width(part)) - offset, next = of_key_ ? width(part) : 0;
      if (by_segment()) {
        const A same = u[first], other = u[first + 1];
        for (Index j = 0; j < part.cols; ++j) to[j] += column[j] == 0 ? same : other;
        continue;
      }
      for (Index j = 0; j < part.cols; ++j) to[j] += u[first + j * next + column[j]];
    }
  }

  /// d_u[i or j][column(i, j)] += d_s_ij
  void scatter(const Part& part, const A* d_s, A* d_u) const {
    if (part.by == By::band && !of_key_) {
      return tiles::scatter_band(part.rows, part.cols, part.band, d_s, tile_.stride, d_u, part.count);
    }
    if (part.by == By::band && part.count > 1) {
      return tiles::scatter_key_band(part.rows, part.cols, part.band, d_s, tile_.stride, d_u, part.count);
    }
    std::array<std::int32_t, widest> room;
    const std::int32_t* column = nullptr;
    Index offset = 0;
    for (Index i = 0; i < part.rows; ++i) {
      const A* from = d_s + i * tile_.stride;
      if (part.by == By::band) {
        const tiles::BandRow met = tiles::band_row(part.rows, part.cols, part.band, i);
        tiles::sum_diagonals(Index{1}, met.end - met.begin, from + met.begin, tile_.stride, d_u + met.begin);
        continue;
      }
      if (i == 0 || !parts_.as_before(part, i)) column = parts_.columns(part, i, offset, room.data());
      const Index first = (of_key_ ? 0 : i * width(part)) - offset, next = of_key_ ? width(part) : 0;
      if (by_segment()) {
        const auto [same, other] = segment_sums(part.cols, column, from);
        d_u[first] += same, d_u[first + 1] += other;
        continue;
      }
      for (Index j = 0; j < part.cols; ++j) d_u[first + j * next + column[j]] += from[j];
    }
  }

  /// Whether a query has two products, of which each score takes one.
  bool by_segment() const { return term_.map.kind == IndexMap::Kind::segment && !of_key_; }
  /// Σ x_j of the keys of the query's segment, and of the others. Four sums of each, which do not wait for one another.
  static std::pair<A, A> segment_sums(Index n, const std::int32_t* column, const A* x) {
    A same[4] = {}, other[4] = {};
    Index j = 0;
    for (; j + 4 <= n; j += 4) {
#pragma GCC unroll 4
      for (Index l = 0; l < 4; ++l) {
        const A own = column[j + l] == 0 ? x[j + l] : A{0}, others = column[j + l] == 0 ? A{0} : x[j + l];
        same[l] += own, other[l] += others;
      }
    }
    for (; j < n; ++j) (column[j] == 0 ? same : other)[0] += x[j];
    return {(same[0] + same[1]) + (same[2] + same[3]), (other[0] + other[1]) + (other[2] + other[3])};
  }

  const RowsByIndex<A>& term_;
  const Tile<A>& tile_;
  Operands<A> operands_;
  Parts<A> parts_;
  bool of_key_;
  const A* zero_;  ///< the row of bucket 0, which the table may lack
  Index step_;
  const A* shift_ = nullptr;
};

template <class A>
Operands<A> operands_of(const RowsByIndex<A>& term, const Tile<A>& tile, const TileGrads<A>& grads) {
  const A scale = term.scale == RowsByIndex<A>::Scale::softmax ? tile.scale : A{1};
  if (term.operand == Side::query) {
    return {tile.dim, scale, tile.q, tile.q_stride, grads.d_q, grads.d_q_stride, grads.params};
  }
  return {tile.dim, scale, tile.k, tile.k_stride, grads.d_k, grads.d_k_stride, grads.params};
}

}  // namespace

template <class A>
void add_scores(const RowsByIndexList<A>& terms, const Tile<A>& tile, A* s) {
  for (const RowsByIndex<A>& term : terms) Product<A>(term, tile, operands_of(term, tile, {})).add(s);
}

template <class A>
void add_score_grads(const RowsByIndexList<A>& terms, const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) {
  for (const RowsByIndex<A>& term : terms) Product<A>(term, tile, operands_of(term, tile, grads)).add_transposed(d_s);
}

// o_i += Σ_j p_ij table[row(i, j)] is what the gradient of a query's product is, with p for dS and o for d_q.

template <class A>
void add_values(const RowsByIndexList<A>& terms, const Tile<A>& tile, const A* p, Index value_dim, A* o,
                Index o_stride) {
  for (const RowsByIndex<A>& term : terms) {
    Product<A>(term, tile, {value_dim, A{1}, nullptr, 0, o, o_stride}).add_transposed(p);
  }
}

template <class A>
void add_value_grads(const RowsByIndexList<A>& terms, const Tile<A>& tile, const A* p, Index value_dim, const A* d_o,
                     Index d_o_stride, A* d_p, const TileGrads<A>& grads) {
  for (const RowsByIndex<A>& term : terms) {
    const Product<A> product(term, tile, {value_dim, A{1}, d_o, d_o_stride, nullptr, 0, grads.params});
    product.add_transposed(p);
    if (d_p != nullptr) product.add(d_p);
  }
}

template <class A>
Index scratch_size(const RowsByIndexList<A>& terms, Index rows, Index cols) {
  Index most = 0;
  for (const RowsByIndex<A>& term : terms) {
    const Index queries = std::min(rows, most_rows), keys = std::min(cols, most_cols(term));
    const Index operands = term.operand == Side::query ? queries : keys;
    const Index met = most_met(term, queries, keys);
    const Index shifted = term.shift.data == nullptr ? 0 : term.table.shape[2];
    most = std::max(most, operands * (met + 1 + shifted));
    if (term.map.kind == IndexMap::Kind::distance && std::min(rows, cols) >= least_packed) {
      most = std::max(most, PackedRows<A>::scratch_size(std::min(rows, most_band_rows), std::min(cols, widest_band),
                                                        term.table.shape[2]));
    }
  }
  return most;
}

Reach reach(const Problem& problem, Index b) {
  const auto ends = [&](const Positions& at, Index time) {
    Reach span{max_position, -max_position};
    for (Index t = 0; t < time; ++t) {
      const auto position = static_cast<Index>(at.real(0, b, t));
      span.least = std::min(span.least, position);
      span.most = std::max(span.most, position);
    }
    return span;
  };
  const Reach q = ends(*problem.q_positions, problem.q_len), k = ends(*problem.k_positions, problem.k_len);
  return {k.least - q.most, k.most - q.least};
}

#define BEARING_INSTANTIATE(A)                                                                                   \
  template void add_scores(const RowsByIndexList<A>&, const Tile<A>&, A*);                                       \
  template void add_score_grads(const RowsByIndexList<A>&, const Tile<A>&, const A*, const TileGrads<A>&);       \
  template void add_values(const RowsByIndexList<A>&, const Tile<A>&, const A*, Index, A*, Index);               \
  template void add_value_grads(const RowsByIndexList<A>&, const Tile<A>&, const A*, Index, const A*, Index, A*, \
                                const TileGrads<A>&);                                                            \
  template Index scratch_size(const RowsByIndexList<A>&, Index, Index);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing::relation
