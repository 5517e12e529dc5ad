#include "attention/shared/checked_inputs.hpp"

#include <algorithm>
#include <array>
#include <bearing/linear_attention.hpp>

#include "terms/checks.hpp"
#include "terms/score_call.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

template <class T>
View<const Index, 2> table_of(const AttentionInputs<T>& in) {
  return in.block_table;
}
template <class T>
View<const Index, 2> table_of(const LinearAttentionInputs<T>&) {
  return {};
}

/// Where rows are turned: at their positions, unless the call says otherwise.
template <class T>
std::array<const Positions*, 2> turned_at(const AttentionInputs<T>& in) {
  return {in.q_turned_at ? &*in.q_turned_at : &in.q_positions, in.k_turned_at ? &*in.k_turned_at : &in.k_positions};
}
template <class T>
std::array<const Positions*, 2> turned_at(const LinearAttentionInputs<T>& in) {
  return {&in.q_positions, &in.k_positions};
}

}  // namespace

template <class A>
template <class Inputs>
CheckedInputs<A>::CheckedInputs(const char* name, const Inputs& in)
    : function(name), q(in.q), k(in.k, table_of(in)), v(in.v, table_of(in)) {
  check_tensor(function, "q", in.q);
  check_tensor(function, "k", in.k);
  check_tensor(function, "v", in.v);
  check_shapes();
  problem.q_positions = &in.q_positions;
  problem.k_positions = &in.k_positions;
  check_positions(function, "q_positions", in.q_positions, problem.batch, problem.q_len);
  check_positions(function, "k_positions", in.k_positions, problem.batch, problem.k_len);
  const std::array<const Positions*, 2> turned = turned_at(in);
  q_turned_at = turned[0], k_turned_at = turned[1];
  if (turned[0] != &in.q_positions) check_positions(function, "q_turned_at", *turned[0], problem.batch, problem.q_len);
  if (turned[1] != &in.k_positions) check_positions(function, "k_turned_at", *turned[1], problem.batch, problem.k_len);
}

template <class A>
void CheckedInputs<A>::check_shapes() {
  problem.batch = q.shape()[0], problem.heads = q.shape()[1], problem.q_len = q.shape()[2];
  problem.kv_heads = k.shape()[1], problem.k_len = k.shape()[2], problem.value_dim = v.shape()[3];
  problem.dim = in_dim = q.shape()[3];
  const Index blocks = k.paged() ? k.shape()[0] : problem.batch;
  const char* axes = k.paged() ? "[blocks, kv_heads, block_size, dim]" : "[batch, kv_heads, k_len, dim]";
  const bool grouped = problem.kv_heads > 0 ? problem.heads % problem.kv_heads == 0 : problem.heads == 0;
  if (k.shape()[0] != blocks || k.shape()[3] != in_dim || !grouped) {
    throw ShapeError(concat("[", function, "] k: must be ", axes, ", kv_heads a divisor of heads, for queries [batch, ",
                            "heads, q_len, dim] = ", q.shape(), ", got ", k.shape()));
  }
  if (!std::equal(v.shape().begin(), v.shape().begin() + 3, k.shape().begin())) {
    throw ShapeError(
        concat("[", function, "] v: must have the first three extents of k, ", k.shape(), ", got ", v.shape()));
  }
  if (k.paged()) check_table();
}

template <class A>
void CheckedInputs<A>::check_table() {
  const auto& table = k.table();
  check_tensor(function, "block_table", table);
  if (table.shape[0] != problem.batch) {
    const bool packed = problem.batch == 1 && table.shape[0] > 1;
    throw ShapeError(
        concat("[", function, "] block_table: must be [batch, blocks of a sequence] with batch = ", problem.batch,
               ", got ", table.shape,
               packed ? ": packed sequences share one row, of all their blocks in order, and k_starts are at "
                        "the edges of blocks"
                      : ""));
  }
  const Index block_size = k.shape()[2];
  if (block_size < 1 || table.shape[1] > max_position / block_size) {
    throw ShapeError(concat("[", function, "] block_table: must name blocks with rows, at most 2^31 rows in all, got ",
                            table.shape[1], " blocks of ", block_size, " rows"));
  }
  problem.k_len = table.shape[1] * block_size;
}

template <class A>
void CheckedInputs<A>::check_mask(Mask mask) const {
  if (mask < Mask::none || mask > Mask::causal_bottom_right) {
    throw RangeError(concat("[", function, "] mask: must be none, causal, causal_top_left or causal_bottom_right, got ",
                            static_cast<Index>(mask)));
  }
  const Index q_axes = problem.q_positions->axes(), k_axes = problem.k_positions->axes();
  if (mask == Mask::causal && q_axes != k_axes && q_axes != 1 && k_axes != 1) {
    throw ShapeError(concat("[", function, "] k_positions: must have as many axes as q_positions, ", q_axes,
                            ", or one for a causal mask, got ", k_axes));
  }
}

template <class A>
void CheckedInputs<A>::turn_by(const TermList<A>& terms) {
  check_list(function, terms);
  for (const Term<A>& term : terms) {
    if (term.turn == nullptr) continue;
    for (const Side side : {Side::query, Side::key}) {
      const bool queries = side == Side::query;
      Problem of{.batch = problem.batch, .dim = problem.dim, .side = side};
      of.heads = of.kv_heads = queries ? problem.heads : problem.kv_heads;
      of.q_len = of.k_len = queries ? problem.q_len : problem.k_len;
      of.q_positions = of.k_positions = queries ? q_turned_at : k_turned_at;
      if (term.check != nullptr) term.check(term.self, function, of);
    }
    if (term.out_dim != nullptr) problem.dim = term.out_dim(term.self, problem.dim);
    rows.add(term);
  }
}

template struct CheckedInputs<float>;
template struct CheckedInputs<double>;
#define BEARING_INSTANTIATE(T)                                                               \
  template CheckedInputs<Compute<T>>::CheckedInputs(const char*, const AttentionInputs<T>&); \
  template CheckedInputs<Compute<T>>::CheckedInputs(const char*, const LinearAttentionInputs<T>&);
BEARING_EACH_NUMBER(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

}  // namespace bearing
