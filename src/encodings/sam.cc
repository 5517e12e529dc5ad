#include <algorithm>
#include <bearing/encodings/sam.hpp>
#include <bearing/error.hpp>

#include "describe/describer.hpp"
#include "tensor_checks.hpp"
#include "terms/grid.hpp"
#include "terms/tile_kernels.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

template <class A>
void check_table(const char* name, Index extent, const Param<A, 2>& table, Index dim) {
  const std::array<Index, 2> wanted{2 * extent - 1, dim};
  if (table.value.shape != wanted || dim < 1) {
    throw ShapeError(concat("[SamTerm] ", name, ": must be [2 * ", extent, " - 1, dim] = ", wanted, ", shape is ",
                            table.value.shape));
  }
  check_tensor("SamTerm", name, table.value);
  if (dim > 1 && table.value.stride[1] != 1) {
    throw ShapeError(
        concat("[SamTerm] ", name, ": must have its features side by side, stride is ", table.value.stride));
  }
  if (table.grad.data != nullptr && table.grad.shape != wanted) {
    throw ShapeError(
        concat("[SamTerm] ", name, ".grad: must have the table's shape ", wanted, ", got ", table.grad.shape));
  }
}

/// The rows of one table that a tile meets: displacements low … high on an axis, query minus key.
struct Band {
  Index first, count;
};

template <class A>
Band band_of(const Tile<A>& tile, std::size_t axis, Index extent) {
  const auto [q_low, q_high] = std::minmax_element(tile.q_positions[axis], tile.q_positions[axis] + tile.rows);
  const auto [k_low, k_high] = std::minmax_element(tile.k_positions[axis], tile.k_positions[axis] + tile.cols);
  const auto low = static_cast<Index>(*q_low - *k_high), high = static_cast<Index>(*q_high - *k_low);
  return {low + extent - 1, high - low + 1};
}

/// body(i, j, row of the height table, row of the width table), rows counted within their bands.
template <class A, class Body>
void over_cells(const Tile<A>& tile, const Sam& spec, const Band& up, const Band& across, const Body& body) {
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index j = 0; j < tile.cols; ++j) {
      body(i, j, static_cast<Index>(tile.q_positions[0][i] - tile.k_positions[0][j]) + spec.height - 1 - up.first,
           static_cast<Index>(tile.q_positions[1][i] - tile.k_positions[1][j]) + spec.width - 1 - across.first);
    }
  }
}

}  // namespace

template <class A>
SamTerm<A>::SamTerm(const Sam& spec, Param<A, 2> height_table, Param<A, 2> width_table)
    : spec_(spec), height_(height_table), width_(width_table) {
  if (spec.height < 1 || spec.width < 1 || spec.height > 4096 || spec.width > 4096) {
    throw ShapeError(
        concat("[SamTerm] height, width: must be between 1 and 4096, got ", spec.height, ", ", spec.width));
  }
  check_table("height_table", spec.height, height_table, height_table.value.shape[1]);
  check_table("width_table", spec.width, width_table, height_table.value.shape[1]);
}

template <class A>
void SamTerm<A>::check(const char* function, const Problem& problem) const {
  if (problem.dim != height_.value.shape[1]) {
    throw ShapeError(
        concat("[", function, "] q: must have the tables' dim = ", height_.value.shape[1], ", got ", problem.dim));
  }
  check_grid(function, {spec_.height, spec_.width, false}, problem);
}

template <class A>
Index SamTerm<A>::scratch_size(Index rows, Index) const {
  return rows * table_rows();
}

template <class A>
void SamTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  const Band up = band_of(tile, 0, spec_.height), across = band_of(tile, 1, spec_.width);
  A* u = tile.scratch;
  A* v = u + tile.rows * up.count;
  tiles::multiply_nt(tile.rows, up.count, tile.dim, A{1}, tile.q, tile.q_stride, &height_.value(up.first, Index{0}),
                     height_.value.stride[0], u, up.count);
  tiles::multiply_nt(tile.rows, across.count, tile.dim, A{1}, tile.q, tile.q_stride,
                     &width_.value(across.first, Index{0}), width_.value.stride[0], v, across.count);
  over_cells(tile, spec_, up, across, [&](Index i, Index j, Index y, Index x) {
    s[i * tile.stride + j] += u[i * up.count + y] + v[i * across.count + x];
  });
}

template <class A>
void SamTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  const Band up = band_of(tile, 0, spec_.height), across = band_of(tile, 1, spec_.width);
  A* d_u = tile.scratch;
  A* d_v = d_u + tile.rows * up.count;
  std::fill(d_u, d_v + tile.rows * across.count, A{0});
  over_cells(tile, spec_, up, across, [&](Index i, Index j, Index y, Index x) {
    d_u[i * up.count + y] += d_s[i * tile.stride + j];
    d_v[i * across.count + x] += d_s[i * tile.stride + j];
  });
  const auto back = [&](const Param<A, 2>& table, const Band& band, const A* d, A* d_table) {
    // u = q Rᵀ: dq = du R, dR = duᵀ q
    if (grads.d_q != nullptr) {
      tiles::add_multiply_nn(tile.rows, band.count, tile.dim, A{1}, d, band.count, &table.value(band.first, Index{0}),
                             table.value.stride[0], grads.d_q, grads.d_q_stride);
    }
    if (d_table != nullptr) {
      tiles::add_multiply_tn(tile.rows, band.count, tile.dim, A{1}, d, band.count, tile.q, tile.q_stride,
                             d_table + band.first * tile.dim, tile.dim);
    }
  };
  back(height_, up, d_u, grads.params);
  back(width_, across, d_v, grads.params == nullptr ? nullptr : grads.params + height_.value.size());
}

template <class A>
Index SamTerm<A>::param_size() const {
  return height_.grad.data == nullptr && width_.grad.data == nullptr ? 0 : height_.value.size() + width_.value.size();
}

template <class A>
void SamTerm<A>::collect(Index, Index, const A* d_params) const {
  const auto add = [](View<A, 2> grad, const A* from) {
    for (Index row = 0; row < grad.shape[0]; ++row) {
      for (Index d = 0; d < grad.shape[1]; ++d) grad(row, d) += *from++;
    }
  };
  if (height_.grad.data != nullptr) add(height_.grad, d_params);
  if (width_.grad.data != nullptr) add(width_.grad, d_params + height_.value.size());
}

template class SamTerm<float>;
template class SamTerm<double>;

void describe_sam(Describer& to) {
  to.home("sam", {"Li et al.", 2022, "arXiv 2112.01526"});
  to.record("Sam", Sam{},
            "Decomposed relative position embeddings, of MViTv2, ViTDet and Segment Anything.\n\n"
            "    s_ij <- s_ij + q_i (R_h[y_i - y_j] + R_w[x_i - x_j])\n\n"
            "The query enters without the softmax scale.\n\nLi et al. 2022, arXiv 2112.01526.")
      .member("height", &Sam::height, "Of the map that attention sees, in patches.")
      .member("width", &Sam::width, "Of the same.");
  const auto offsets = [](const char* name, Index Sam::*side) {
    return NamedExtent(name, [side](const Record& spec, const Sizes&) { return 2 * (spec.as<Sam>()->*side) - 1; });
  };
  to.encoding<Sam, 2, 2>(
        "SamTerm",
        "Segment Anything's term: height_table [2 height - 1, dim], width_table [2 width - 1, dim], for all heads.\n\n"
        "    s_ij <- s_ij + q_i (R_h[y_i - y_j] + R_w[x_i - x_j])\n\n"
        "Row 0 is for -(height - 1), query minus key. Positions [2, batch, time], y then x, from 0.\n\n"
        "Li et al. 2022, arXiv 2112.01526.",
        {Parameter("height_table", {offsets("2 height - 1", &Sam::height), "dim"}, "A vector for each offset of rows.")
             .starts(constant(0))
             .draws(normal(0.1)),
         Parameter("width_table", {offsets("2 width - 1", &Sam::width), "dim"}, "A vector for each offset of columns.")
             .starts(constant(0))
             .draws(normal(0.1))},
        make_with_spec<SamTerm>)
      .form(Form::rows_by_index)
      .reads_content()
      .width([](const Sam& sam, Index) { return sam.width; })
      .called("sam", "SAM's decomposed table", "vectors per row and column offset meet queries",
              [](const ExampleSize& size) {
                const Index side = inspect::square_side(size.length);
                return Sam{.height = side, .width = side};
              })
      .also({"mvitv2", "vitdet"});
}

}  // namespace bearing
