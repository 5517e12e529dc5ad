#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/rows.hpp>
#include <vector>

#include "aligned.hpp"
#include "tensor_checks.hpp"
#include "terms/row_place.hpp"
#include "terms/score_call.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

template <class A, class T>
void check_input(const char* function, const char* argument, const InputEncoding<A>& encoding,
                 const Positions& positions, View<T, 3> x) {
  check_extents(function, argument, x);
  const auto [batch, time, dim] = x.shape;
  if (dim != encoding.dim) {
    throw ShapeError(concat("[", function, "] ", argument, ": must be [batch, time, dim] with dim = ", encoding.dim,
                            ", got shape ", x.shape));
  }
  check_memory(function, argument, x);
  if constexpr (Writable<T>) check_distinct(function, argument, x);
  check_positions(function, "positions", positions, batch, time);
  Problem problem{
      .batch = batch, .q_len = time, .k_len = time, .dim = dim, .q_positions = &positions, .k_positions = &positions};
  if (encoding.check != nullptr) encoding.check(encoding.self, function, problem);
  CallMemory memory(function);
  memory.reads_positions("positions", positions);
  if constexpr (Writable<T>) {
    memory.forward(encoding).writes(argument, x);
  } else {
    memory.backward(encoding).reads(argument, x);
  }
  memory.check();
}

template <class A>
struct FillRoom {
  RowPlace place;
  AlignedArray<A> rows;  ///< of a tile
  std::vector<double> scratch;
};

template <class A>
std::vector<FillRoom<A>> fill_rooms(const InputEncoding<A>& encoding, const Positions& positions, Index chunks,
                                    Index rows, Index numbers) {
  const Index scratch = encoding.input_scratch == nullptr ? 0 : encoding.input_scratch(encoding.self, rows);
  std::vector<FillRoom<A>> rooms;
  rooms.reserve(static_cast<std::size_t>(chunks));
  for (Index c = 0; c < chunks; ++c) {
    rooms.push_back(
        {{positions, rows}, AlignedArray<A>(numbers), std::vector<double>(static_cast<std::size_t>(scratch))});
  }
  return rooms;
}

/// Rows of a tile: 64, or as many as the encoding likes, while there are tiles for all workers and, if the rows are
/// not written where they belong at once, 2^17 numbers hold them, which are still near (Intel with AMX, 131,072 × 128
/// of float32 that are added: 8.6 ms, and 11.5 by 2^19).
template <class A>
Index tile_rows(const InputEncoding<A>& encoding, const Executor& on, Index batch, Index time, bool direct) {
  const Index numbers = direct ? encoding.numbers_at_once : std::min(encoding.numbers_at_once, Index{1} << 17);
  const Index share = time * batch / workers_of(on);
  const Index rows = std::min(numbers / encoding.dim, (share + rows_at_once - 1) / rows_at_once * rows_at_once);
  return std::max(rows_at_once, rows / rows_at_once * rows_at_once);
}

/// at_once: how the encoding itself writes rows where they belong, if it can and x is of its type, its rows contiguous.
/// put(row of x, stride, row of p, dim): how a row of numbers reaches x else.
template <class T, class Put>
void write_inputs(const char* function, const char* argument, const InputEncoding<Compute<T>>& encoding,
                  const Positions& positions, View<T, 3> x, const Executor& on,
                  void (*at_once)(const void*, const RowTile&, Compute<T>*), const Put& put) {
  using A = Compute<T>;
  const bool direct = at_once != nullptr && std::is_same_v<T, A> && x.stride[2] == 1;
  check_input(function, argument, encoding, positions, x);
  if (x.size() == 0) return;
  const auto [batch, time, dim] = x.shape;
  const Index rows = std::min(tile_rows(encoding, on, batch, time, direct), time);
  const Index tiles = (time + rows - 1) / rows, units = batch * tiles, chunks = chunk_count(on, units);
  std::vector<FillRoom<A>> rooms = fill_rooms<A>(encoding, positions, chunks, rows, direct ? 0 : rows * dim);
  in_chunks(on, chunks, units, [&, time = time, dim = dim](Index chunk, Index unit) {
    FillRoom<A>& room = rooms[static_cast<std::size_t>(chunk)];
    RowTile tile = room.place.open(unit / tiles, 0, unit % tiles * rows, time);
    tile.dim = dim;
    tile.scratch = room.scratch.data();
    if constexpr (std::is_same_v<T, A>) {
      if (direct) {
        tile.y_stride = x.stride[1];
        return at_once(encoding.self, tile, &x(tile.batch, tile.row, Index{0}));
      }
    }
    tile.y_stride = dim;
    encoding.inputs(encoding.self, tile, room.rows.data());
    for (Index i = 0; i < tile.rows; ++i) {
      put(&x(tile.batch, tile.row + i, Index{0}), x.stride[2], room.rows.data() + i * dim, dim);
    }
  });
}

}  // namespace

template <class T>
void fill(const std::type_identity_t<InputEncoding<Compute<T>>>& encoding, const Positions& positions, View<T, 3> rows,
          const Executor& on) {
  write_inputs("fill", "rows", encoding, positions, rows, on, encoding.inputs,
               [](T* x, Index stride, const Compute<T>* p, Index dim) {
                 if (stride == 1) {  // apart, so that it becomes vectors
                   for (Index d = 0; d < dim; ++d) x[d] = T(p[d]);
                 } else {
                   for (Index d = 0; d < dim; ++d) x[d * stride] = T(p[d]);
                 }
               });
}

template <class T>
void add(const std::type_identity_t<InputEncoding<Compute<T>>>& encoding, const Positions& positions, View<T, 3> x,
         const Executor& on) {
  using A = Compute<T>;
  write_inputs("add", "x", encoding, positions, x, on, encoding.add_inputs,
               [](T* to, Index stride, const A* p, Index dim) {
                 if (stride == 1) {
                   for (Index d = 0; d < dim; ++d) to[d] = T(static_cast<A>(to[d]) + p[d]);
                 } else {
                   for (Index d = 0; d < dim; ++d) to[d * stride] = T(static_cast<A>(to[d * stride]) + p[d]);
                 }
               });
}

template <class A>
void add_backward(const std::type_identity_t<InputEncoding<A>>& encoding, const Positions& positions,
                  View<const A, 3> d_x, const Executor& on) {
  check_input("add_backward", "d_x", encoding, positions, d_x);
  if (encoding.param_size == 0 || d_x.size() == 0) return;
  // One block of gradients a sequence, added up in order; or all of them in order by the encoding itself.
  const auto [batch, time, dim] = d_x.shape;
  const Index size = encoding.grads_in_order ? 0 : encoding.param_size;
  const Executor& where = encoding.grads_in_order ? Executor{} : on;
  std::vector<A> params(block_numbers(batch, size));
  const Index chunks = chunk_count(where, batch), rows = std::min(rows_at_once, time);
  std::vector<FillRoom<A>> rooms = fill_rooms<A>(encoding, positions, chunks, rows, rows * dim);
  in_chunks(where, chunks, batch, [&, time = time, dim = dim](Index chunk, Index b) {
    FillRoom<A>& room = rooms[static_cast<std::size_t>(chunk)];
    for (Index first = 0; first < time; first += rows_at_once) {
      RowTile tile = room.place.open(b, 0, first, time);
      tile.dim = tile.y_stride = dim;
      tile.scratch = room.scratch.data();
      for (Index i = 0; i < tile.rows; ++i) {
        for (Index d = 0; d < dim; ++d) room.rows.data()[i * dim + d] = d_x(b, first + i, d);
      }
      encoding.input_grads(encoding.self, tile, room.rows.data(), size == 0 ? nullptr : params.data() + b * size);
    }
  });
  if (size == 0) return;
  for (Index b = 0; b < batch; ++b) encoding.collect(encoding.self, b, 0, params.data() + b * size);
}

namespace {

template <class A>
struct TurnRoom {
  RowPlace place;
  std::vector<A> x, y, d_x;
  std::vector<double> scratch;
};

template <class A>
std::vector<TurnRoom<A>> turn_rooms(const RowEncoding<A>& encoding, const Positions& positions, Index chunks,
                                    Index time, Index dim, Index out_dim) {
  std::vector<TurnRoom<A>> rooms;
  rooms.reserve(static_cast<std::size_t>(chunks));
  const Index rows = std::min(rows_at_once, time);
  const auto in = static_cast<std::size_t>(rows * dim), out = static_cast<std::size_t>(rows * out_dim);
  const auto scratch =
      static_cast<std::size_t>(encoding.turn_scratch == nullptr ? 0 : encoding.turn_scratch(encoding.self, dim));
  for (Index c = 0; c < chunks; ++c) {
    rooms.push_back(
        {{positions}, std::vector<A>(in), std::vector<A>(out), std::vector<A>(in), std::vector<double>(scratch)});
  }
  return rooms;
}

/// `argument`: what the turned rows are called. Returns their dimension.
template <class A, class X, class Y>
Index check_turn(const char* function, const RowEncoding<A>& encoding, Side side, const Positions& positions,
                 View<X, 4> x, const char* argument, View<Y, 4> y) {
  check_tensor(function, "x", x);
  const auto [batch, heads, time, dim] = x.shape;
  const Index out_dim = encoding.out_dim == nullptr ? dim : encoding.out_dim(encoding.self, dim);
  if (y.shape != std::array<Index, 4>{batch, heads, time, out_dim}) {
    throw ShapeError(concat("[", function, "] ", argument, ": must be [batch, heads, time, ", out_dim,
                            "] for x with shape ", x.shape, ", got ", y.shape));
  }
  check_tensor(function, argument, y);
  check_positions(function, "positions", positions, batch, time);
  Problem problem{.batch = batch, .heads = heads, .kv_heads = heads, .q_len = time, .k_len = time, .dim = dim};
  problem.q_positions = problem.k_positions = &positions;
  problem.side = side;
  if (encoding.check != nullptr) encoding.check(encoding.self, function, problem);
  return out_dim;
}

template <class A, class T>
void load_rows(View<const T, 4> x, const RowTile& tile, std::vector<A>& to) {
  const Index dim = x.shape[3];
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index d = 0; d < dim; ++d) {
      to[static_cast<std::size_t>(i * dim + d)] = static_cast<A>(x(tile.batch, tile.head, tile.row + i, d));
    }
  }
}
template <class A, class T>
void store_rows(const std::vector<A>& from, const RowTile& tile, View<T, 4> y) {
  const Index dim = y.shape[3];
  for (Index i = 0; i < tile.rows; ++i) {
    for (Index d = 0; d < dim; ++d) {
      y(tile.batch, tile.head, tile.row + i, d) = T(from[static_cast<std::size_t>(i * dim + d)]);
    }
  }
}

}  // namespace

template <class T>
void turn(const std::type_identity_t<RowEncoding<Compute<T>>>& encoding, Side side, const Positions& positions,
          std::type_identity_t<View<const T, 4>> x, View<T, 4> y, const Executor& on) {
  using A = Compute<T>;
  const Index out_dim = check_turn("turn", encoding, side, positions, x, "y", y);
  check_distinct("turn", "y", y);
  check_same_or_apart("turn", "y", x, y);
  CallMemory memory("turn");
  memory.reads_positions("positions", positions).forward(encoding).writes("y", y).check();
  const auto [batch, heads, time, dim] = x.shape;
  if (x.size() == 0 && y.size() == 0) return;
  const Index blocks = (time + rows_at_once - 1) / rows_at_once, units = batch * heads * blocks;
  const Index chunks = chunk_count(on, units);
  std::vector<TurnRoom<A>> rooms = turn_rooms<A>(encoding, positions, chunks, time, dim, out_dim);
  in_chunks(on, chunks, units, [&, heads = heads, time = time, dim = dim](Index chunk, Index unit) {
    TurnRoom<A>& room = rooms[static_cast<std::size_t>(chunk)];
    RowTile tile = room.place.open(unit / blocks / heads, unit / blocks % heads, unit % blocks * rows_at_once, time);
    tile.side = side;
    tile.dim = tile.x_stride = dim;
    tile.y_stride = out_dim;
    tile.scratch = room.scratch.data();
    load_rows<A>(x, tile, room.x);
    encoding.turn(encoding.self, tile, room.x.data(), room.y.data());
    store_rows(room.y, tile, y);
  });
}

template <class A>
void turn_backward(const std::type_identity_t<RowEncoding<A>>& encoding, Side side, const Positions& positions,
                   std::type_identity_t<View<const A, 4>> x, std::type_identity_t<View<const A, 4>> d_y, View<A, 4> d_x,
                   const Executor& on) {
  const Index out_dim = check_turn("turn_backward", encoding, side, positions, x, "d_y", d_y);
  if (d_x.shape != x.shape) {
    throw ShapeError(concat("[turn_backward] d_x: must have x's shape ", x.shape, ", got ", d_x.shape));
  }
  check_output("turn_backward", "d_x", d_x);
  check_same_or_apart("turn_backward", "d_x", x, d_x);
  check_same_or_apart("turn_backward", "d_x", d_y, d_x);
  CallMemory memory("turn_backward");  // d_x may be x or d_y: once is enough, for what is apart from it
  memory.reads_positions("positions", positions).backward(encoding).writes("d_x", d_x);
  if (Memory(d_x) != Memory(x)) memory.reads("x", x);
  if (Memory(d_x) != Memory(d_y)) memory.reads("d_y", d_y);
  memory.check();
  const auto [batch, heads, time, dim] = x.shape;
  if (x.size() == 0) return;
  const Index units = batch * heads, chunks = chunk_count(on, units);
  std::vector<TurnRoom<A>> rooms = turn_rooms<A>(encoding, positions, chunks, time, dim, out_dim);
  std::vector<A> params(block_numbers(units, encoding.param_size));
  in_chunks(on, chunks, units, [&, heads = heads, time = time, dim = dim](Index chunk, Index unit) {
    TurnRoom<A>& room = rooms[static_cast<std::size_t>(chunk)];
    for (Index first = 0; first < time; first += rows_at_once) {
      RowTile tile = room.place.open(unit / heads, unit % heads, first, time);
      tile.side = side;
      tile.dim = tile.x_stride = dim;
      tile.y_stride = out_dim;
      tile.scratch = room.scratch.data();
      load_rows<A>(x, tile, room.x);
      load_rows<A>(d_y, tile, room.y);
      encoding.turn_grads(encoding.self, tile, room.x.data(), room.y.data(), room.d_x.data(),
                          encoding.param_size == 0 ? nullptr : params.data() + unit * encoding.param_size);
      store_rows(room.d_x, tile, d_x);
    }
  });
  if (encoding.param_size == 0) return;
  for (Index unit = 0; unit < units; ++unit) {
    encoding.collect(encoding.self, unit / heads, unit % heads, params.data() + unit * encoding.param_size);
  }
}

#define BEARING_INSTANTIATE(T)                                                                                \
  template void fill<T>(const std::type_identity_t<InputEncoding<Compute<T>>>&, const Positions&, View<T, 3>, \
                        const Executor&);                                                                     \
  template void add<T>(const std::type_identity_t<InputEncoding<Compute<T>>>&, const Positions&, View<T, 3>,  \
                       const Executor&);                                                                      \
  template void turn<T>(const std::type_identity_t<RowEncoding<Compute<T>>>&, Side, const Positions&,         \
                        std::type_identity_t<View<const T, 4>>, View<T, 4>, const Executor&);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(Bfloat16)
BEARING_INSTANTIATE(Float16)
#undef BEARING_INSTANTIATE

#define BEARING_INSTANTIATE(A)                                                                                     \
  template void add_backward<A>(const std::type_identity_t<InputEncoding<A>>&, const Positions&, View<const A, 3>, \
                                const Executor&);                                                                  \
  template void turn_backward<A>(const std::type_identity_t<RowEncoding<A>>&, Side, const Positions&,              \
                                 std::type_identity_t<View<const A, 4>>, std::type_identity_t<View<const A, 4>>,   \
                                 View<A, 4>, const Executor&);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing
