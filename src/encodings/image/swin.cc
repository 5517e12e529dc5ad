#include <bearing/encodings/swin.hpp>
#include <bearing/error.hpp>

#include "describe/describer.hpp"
#include "encodings/limits.hpp"
#include "tensor_checks.hpp"
#include "terms/checks.hpp"
#include "terms/grid.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

void check_window(const char* function, const Swin& spec) {
  if (spec.height >= 1 && spec.width >= 1 && spec.height <= largest_window && spec.width <= largest_window) return;
  throw ShapeError(concat("[", function, "] height, width: must be from 1 to ", largest_window, ", got ", spec.height,
                          ", ", spec.width));
}

}  // namespace

Index Swin::rows() const {
  check_window("Swin", *this);
  return table_rows();
}

template <class A>
SwinBias<A>::SwinBias(const Swin& spec, Param<A, 2> table) : spec_(spec), table_(table) {
  check_window("SwinBias", spec);
  if (table.value.shape[0] != spec.rows()) {
    throw ShapeError(concat("[SwinBias] table: must be [", spec.rows(), ", heads] for a window of ", spec.height, " x ",
                            spec.width, ", got shape ", table.value.shape));
  }
  check_tensor("SwinBias", "table", table.value);
  if (table.grad.data != nullptr && table.grad.shape != table.value.shape) {
    throw ShapeError(
        concat("[SwinBias] table.grad: must have the table's shape ", table.value.shape, ", got ", table.grad.shape));
  }
  check_grad("SwinBias", "table", table);
}

template <class A>
void SwinBias<A>::check(const char* function, const Problem& problem) const {
  if (table_.value.shape[1] != problem.heads) {
    throw ShapeError(concat("[", function, "] Swin.table: must have a column for each of ", problem.heads,
                            " heads, got shape ", table_.value.shape));
  }
  check_grid(function, {spec_.height, spec_.width, spec_.class_token == Swin::ClassToken::three_rows}, problem);
}

namespace {

/// body(i, j, row of the table) for a tile's scores.
template <class A, class Body>
void over_rows(const Swin& spec, const Tile<A>& tile, const Body& body) {
  for (Index i = 0; i < tile.rows; ++i) {
    const double q_positions[2] = {tile.q_positions[0][i], tile.q_positions[1][i]};
    for (Index j = 0; j < tile.cols; ++j) {
      const double k_positions[2] = {tile.k_positions[0][j], tile.k_positions[1][j]};
      body(i, j, spec.row(q_positions, k_positions));
    }
  }
}

}  // namespace

template <class A>
void SwinBias<A>::add_scores(const Tile<A>& tile, A* s) const {
  over_rows(spec_, tile, [&](Index i, Index j, Index row) { s[i * tile.stride + j] += table_.value(row, tile.head); });
}

template <class A>
void SwinBias<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  if (grads.params == nullptr) return;
  over_rows(spec_, tile, [&](Index i, Index j, Index row) { grads.params[row] += d_s[i * tile.stride + j]; });
}

template class SwinBias<float>;
template class SwinBias<double>;

template <>
struct describe::Words<Swin::ClassToken> {
  static constexpr const char* all[] = {"none", "three_rows"};
};

namespace {

using Place = std::pair<Index, Index>;  // y, x

Index row_of(const Swin& swin, const Place& q_position, const Place& k_position) {
  static_cast<void>(swin.rows());  // refuses a window that cannot be
  const auto check = [&](const char* argument, const Place& at) {
    const bool inside = at.first >= 0 && at.first < swin.height && at.second >= 0 && at.second < swin.width;
    const bool of_class = swin.class_token == Swin::ClassToken::three_rows && at == Place{-1, -1};
    if (inside || of_class) return;
    throw RangeError(text::concat("[Swin] ", argument, ": must be a token of a window of ", swin.height, " x ",
                                  swin.width, ", got (", at.first, ", ", at.second, ")"));
  };
  check("q_position", q_position);
  check("k_position", k_position);
  const double q[] = {static_cast<double>(q_position.first), static_cast<double>(q_position.second)};
  const double k[] = {static_cast<double>(k_position.first), static_cast<double>(k_position.second)};
  return swin.row(q, k);
}

}  // namespace

void describe_swin(Describer& to) {
  to.home("swin", {"Liu et al.", 2021, "arXiv 2103.14030"});
  to.record("Swin", Swin{},
            "Swin's relative position bias: inside a window every displacement has a learned number per head.\n\n"
            "    s_ij <- s_ij + B_h[y_i - y_j, x_i - x_j]\n\n"
            "Liu et al. 2021, arXiv 2103.14030; Bao et al. 2022, arXiv 2106.08254.")
      .member("height", &Swin::height, "The height of a window in tokens; in BEiT of the image in patches.")
      .member("width", &Swin::width, "The width of the same window or image.")
      .member("class_token", &Swin::class_token,
              "'three_rows' is BEiT's: three more rows of the table serve the class token, which has the position (-1, "
              "-1).")
      .method("rows", &Swin::rows, {},
              "Rows of the table: (2 height - 1)(2 width - 1), and three more with a class token.")
      .method("row", row_of, {"q_position", "k_position"},
              "The table's row for a query and a key, each at (y, x); the class token is at (-1, -1).");
  const auto square = [](Swin::ClassToken class_token) {
    return [class_token](const ExampleSize& size) {
      const auto [height, width] = inspect::square_grid(size.length);
      return Swin{.height = height, .width = width, .class_token = class_token};
    };
  };
  to.encoding<Swin, 2>(
        "SwinBias",
        "Swin's bias, and BEiT's: table [spec.rows(), heads] (relative_position_bias_table).\n\n"
        "    s_ij <- s_ij + table[(dy + height - 1)(2 width - 1) + dx + width - 1, h],   d = query - key\n\n"
        "Positions [2, batch, time], y then x, counted from 0 within the window.\n\n"
        "Liu et al. 2021, arXiv 2103.14030.",
        {Parameter("table", {{"(2 height - 1)(2 width - 1), and 3 with a class token", &Swin::rows}, "heads"},
                   "A number for each displacement and head.")
             .starts(truncated_normal(0.02))
             .draws(normal(1))
             .is_picked_from()},
        make_with_spec<SwinBias>)
      .form(Form::grid)
      .whole_positions()
      .grid([](const Swin& swin, Index) {
        return GridSize{swin.height, swin.width};
      })
      .called("swin", "Swin's window table", "a learned bias per offset in a window", square(Swin::ClassToken::none))
      .called("beit", "BEiT's table", "Swin's table with rows for the class token",
              square(Swin::ClassToken::three_rows))
      .published({"Bao et al.", 2022, "arXiv 2106.08254"});
}

}  // namespace bearing
