#include <bearing/encodings/sam.hpp>
#include <bearing/error.hpp>

#include "describe/describer.hpp"
#include "tensor_checks.hpp"
#include "terms/checks.hpp"
#include "terms/grid.hpp"
#include "terms/relation.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

template <class A>
void check_table(const char* name, Index extent, const Param<A, 2>& table, Index dim) {
  const std::array<Index, 2> wanted{2 * extent - 1, dim};
  if (table.value.shape != wanted || dim < 1) {
    throw ShapeError(concat("[SamTerm] ", name, ": must be [2 * ", extent, " - 1, dim] = ", wanted, ", got shape ",
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
  check_grad("SamTerm", name, table);
}

}  // namespace

template <class A>
SamTerm<A>::SamTerm(const Sam& spec, Param<A, 2> height_table, Param<A, 2> width_table)
    : spec_(spec), height_(height_table), width_(width_table) {
  if (spec.height < 1 || spec.width < 1 || spec.height > 4096 || spec.width > 4096) {
    throw ShapeError(concat("[SamTerm] height, width: must be from 1 to 4096, got ", spec.height, ", ", spec.width));
  }
  check_table("height_table", spec.height, height_table, height_table.value.shape[1]);
  check_table("width_table", spec.width, width_table, height_table.value.shape[1]);
  const auto [in_height, in_width] = grad_block(0, 0).offsets();
  const auto add = [&](std::size_t axis, Index extent, const Param<A, 2>& table, Index block) {
    terms_.add({.scale = RowsByIndex<A>::Scale::none,
                .table = relation::shared(table.value),
                .map = {.axis = axis, .zero = extent - 1, .step = -1, .least = 1 - extent, .most = extent - 1},
                .table_block = block});
  };
  add(0, spec.height, height_table, in_height);
  add(1, spec.width, width_table, in_width);
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
void SamTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  relation::add_scores(rows_by_index(), tile, s);
}

template <class A>
void SamTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  relation::add_score_grads(rows_by_index(), tile, d_s, grads);
}

template <class A>
Index SamTerm<A>::scratch_size(Index rows, Index cols) const {
  return relation::scratch_size(rows_by_index(), rows, cols);
}

template class SamTerm<float>;
template class SamTerm<double>;

void describe_sam(Describer& to) {
  to.home("sam", {"Li et al.", 2022, "arXiv 2112.01526"});
  to.record("Sam", Sam{},
            "Decomposed relative position embeddings, of MViTv2, ViTDet and Segment Anything.\n\n"
            "    s_ij <- s_ij + q_i (R_h[y_i - y_j] + R_w[x_i - x_j])\n\n"
            "The product is not multiplied by the softmax scale.\n\nLi et al. 2022, arXiv 2112.01526.")
      .member("height", &Sam::height, "The height of the map that attention sees, in patches.")
      .member("width", &Sam::width, "The width of the same map.");
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
      .whole_positions()
      .reads_content()
      .grid([](const Sam& sam, Index) {
        return GridSize{sam.height, sam.width};
      })
      .called("sam", "SAM's decomposed table", "vectors per row and column offset meet queries",
              [](const ExampleSize& size) {
                const auto [height, width] = inspect::square_grid(size.length);
                return Sam{.height = height, .width = width};
              })
      .also({"mvitv2", "vitdet"});
}

}  // namespace bearing
