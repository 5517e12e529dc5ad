#include <bearing/encodings/rotary_values.hpp>
#include <bearing/error.hpp>

#include "describe/describer.hpp"
#include "encodings/rotary/rope_call.hpp"
#include "encodings/rotary/rope_tile.hpp"
#include "encodings/rotary/table_length.hpp"
#include "text.hpp"

namespace bearing {

template <class A>
void RotaryValues<A>::check(const char* function, const Problem& problem) const {
  const Index head_dim = table_->frequencies().head_dim;
  if (problem.value_dim != head_dim) {
    throw ShapeError(text::concat("[", function, "] RotaryValues.head_dim: must be the last extent of v, ",
                                  problem.value_dim, ", got ", head_dim));
  }
  check_table(function, "k_positions", *table_, *problem.k_positions, problem.batch, problem.k_len);
  check_table(function, "q_positions", *table_, *problem.q_positions, problem.batch, problem.q_len);
}

template <class A>
Index RotaryValues<A>::turn_scratch(Index dim) const {
  return turn_rows_scratch(padded_pairs(dim / 2));
}

template <class A>
void RotaryValues<A>::turn_in_place(const RowTile& tile, bool transposed, A* x) const {
  turn_rows<A>(*table_, {.rows = tile.rows,
                         .at = tile.at,
                         .in = x,
                         .out = x,
                         .in_stride = tile.x_stride,
                         .out_stride = tile.x_stride,
                         .transposed = transposed,
                         .scratch = tile.scratch});
}

template <class A>
void RotaryValues<A>::turn_values(const RowTile& tile, A* x) const {
  turn_in_place(tile, tile.side == Side::query, x);
}

template <class A>
void RotaryValues<A>::turn_value_grads(const RowTile& tile, A* x) const {
  turn_in_place(tile, tile.side == Side::key, x);
}

template class RotaryValues<float>;
template class RotaryValues<double>;

namespace {

using inspect::Specimen;

Specimen values_turned_by(const ExampleSize& size, const Rope& rope) {
  const auto table = table_of<double>(rope, size.length);
  Specimen specimen{.options = size, .held = static_cast<Index>(table->bytes() / sizeof(double))};
  specimen.turn_values = [table](Side side, const Positions& at, View<const double, 4> x, View<double, 4> y,
                                 const Executor& on) {
    side == Side::key ? rotate_to<double>(*table, x, y, at, on) : rotate_backward_to<double>(*table, x, y, at, on);
  };
  return specimen;
}

}  // namespace

void describe_rotary_values(Describer& to) {
  to.home("rotary_values", {"DeepSeek-AI", 2026, "DeepSeek-V4"});
  to.encoding_with<Rope, TableLength>("RotaryValues",
                                      "RoPE on values, whose sum is turned back at the query's position.\n\n"
                                      "    o_i = R(-m_i) sum_j p_ij R(n_j) v_j\n\n"
                                      "DeepSeek-AI 2026, DeepSeek-V4; before it RoPER, by Georges Harik.",
                                      {},
                                      []<class A>(const Rope& rope, const TableLength& kept) {
                                        return WithTable<RopeTable<A>, RotaryValues<A>>(table_of<A>(rope, kept.length));
                                      })
      .by_hand()
      .called("rotary_values", "RoPE on values", "turns values, and their sum back at the query",
              [](const ExampleSize& size) { return Rope{.head_dim = size.dim, .pairing = Pairing::half}; })
      .example(values_turned_by)
      .also({"rope_values", "roper", "rotated_values"});
}

}  // namespace bearing
