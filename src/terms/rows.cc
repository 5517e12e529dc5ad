#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/rows.hpp>
#include <vector>

#include "terms/score_call.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

/// Rows that a task holds at once: 64 of some hundred numbers stay in the nearest cache.
constexpr Index block_rows = 64;

/// Positions of a block of tokens.
class Place {
 public:
  Place(const Positions& at) : at_(at), memory_(static_cast<std::size_t>(at.axes() * block_rows)) {}

  RowTile open(Index b, Index h, Index first, Index time) {
    RowTile tile{b, h, first, std::min(block_rows, time - first)};
    for (Index axis = 0; axis < max_axes; ++axis) {
      const Index from = std::min(axis, at_.axes() - 1);
      double* row = memory_.data() + from * block_rows;
      if (axis == from) {
        for (Index i = 0; i < tile.rows; ++i) row[i] = at_.real(axis, b, first + i);
      }
      tile.at[static_cast<std::size_t>(axis)] = row;
    }
    return tile;
  }

 private:
  const Positions& at_;
  std::vector<double> memory_;
};

void check_axes(const char* function, const Positions& at) {
  if (at.axes() <= max_axes) return;
  throw ShapeError(concat("[", function, "] at: must have at most ", max_axes, " axes, got ", at.axes()));
}

template <class A>
void check_input(const char* function, const InputEncoding<A>& encoding, const Positions& at,
                 const std::array<Index, 3>& x) {
  if (x[2] != encoding.dim) {
    throw ShapeError(
        concat("[", function, "] x: must be [batch, time, dim] with dim = ", encoding.dim, ", shape is ", x));
  }
  at.check(function, "at", at.axes(), x[0], x[1]);
  check_axes(function, at);
  Problem problem{.batch = x[0], .q_len = x[1], .k_len = x[1], .dim = x[2], .q_at = &at, .k_at = &at};
  if (encoding.check != nullptr) encoding.check(encoding.self, function, problem);
}

template <class A>
struct FillRoom {
  Place place;
  std::vector<A> rows;
};

/// put(element, p): how a row's number reaches x.
template <class T, class Put>
void write_inputs(const char* function, const InputEncoding<Compute<T>>& encoding, const Positions& at, View<T, 3> x,
                  const Executor& on, bool direct, const Put& put) {
  using A = Compute<T>;
  check_input(function, encoding, at, x.shape);
  if (x.size() == 0) return;
  const Index dim = x.shape[2];
  const Index blocks = (x.shape[1] + block_rows - 1) / block_rows, units = x.shape[0] * blocks;
  std::vector<FillRoom<A>> rooms;
  const Index chunks = chunk_count(on, units);
  rooms.reserve(static_cast<std::size_t>(chunks));
  for (Index c = 0; c < chunks; ++c) {
    rooms.push_back({{at}, std::vector<A>(direct ? 0 : static_cast<std::size_t>(block_rows * dim))});
  }
  in_chunks(on, chunks, units, [&](Index chunk, Index unit) {
    FillRoom<A>& room = rooms[static_cast<std::size_t>(chunk)];
    RowTile tile = room.place.open(unit / blocks, 0, unit % blocks * block_rows, x.shape[1]);
    tile.dim = dim;
    if constexpr (std::is_same_v<T, A>) {
      if (direct) {
        tile.y_stride = x.stride[1];
        return encoding.inputs(encoding.self, tile, &x(tile.batch, tile.row, Index{0}));
      }
    }
    tile.y_stride = dim;
    encoding.inputs(encoding.self, tile, room.rows.data());
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index d = 0; d < dim; ++d) {
        put(x(tile.batch, tile.row + i, d), room.rows[static_cast<std::size_t>(i * dim + d)]);
      }
    }
  });
}

}  // namespace

template <class T>
void fill(const std::type_identity_t<InputEncoding<Compute<T>>>& encoding, const Positions& at, View<T, 3> rows,
          const Executor& on) {
  const bool direct = std::is_same_v<T, Compute<T>> && rows.stride[2] == 1;
  write_inputs("fill", encoding, at, rows, on, direct, [](T& element, Compute<T> p) { element = T(p); });
}

template <class T>
void add(const std::type_identity_t<InputEncoding<Compute<T>>>& encoding, const Positions& at, View<T, 3> x,
         const Executor& on) {
  write_inputs("add", encoding, at, x, on, false,
               [](T& element, Compute<T> p) { element = T(static_cast<Compute<T>>(element) + p); });
}

template <class A>
void add_backward(const std::type_identity_t<InputEncoding<A>>& encoding, const Positions& at, View<const A, 3> d_x,
                  const Executor& on) {
  check_input("add_backward", encoding, at, d_x.shape);
  if (encoding.param_size == 0 || d_x.size() == 0) return;
  // One block of gradients a sequence, added up in order.
  const Index batch = d_x.shape[0], time = d_x.shape[1], dim = d_x.shape[2];
  std::vector<A> params(static_cast<std::size_t>(batch * encoding.param_size));
  const Index chunks = chunk_count(on, batch);
  std::vector<FillRoom<A>> rooms;
  rooms.reserve(static_cast<std::size_t>(chunks));
  for (Index c = 0; c < chunks; ++c)
    rooms.push_back({{at}, std::vector<A>(static_cast<std::size_t>(block_rows * dim))});
  in_chunks(on, chunks, batch, [&](Index chunk, Index b) {
    FillRoom<A>& room = rooms[static_cast<std::size_t>(chunk)];
    for (Index first = 0; first < time; first += block_rows) {
      RowTile tile = room.place.open(b, 0, first, time);
      tile.dim = tile.y_stride = dim;
      for (Index i = 0; i < tile.rows; ++i) {
        for (Index d = 0; d < dim; ++d) room.rows[static_cast<std::size_t>(i * dim + d)] = d_x(b, first + i, d);
      }
      encoding.input_grads(encoding.self, tile, room.rows.data(), params.data() + b * encoding.param_size);
    }
  });
  for (Index b = 0; b < batch; ++b) encoding.collect(encoding.self, b, 0, params.data() + b * encoding.param_size);
}

namespace {

template <class A>
struct TurnRoom {
  Place place;
  std::vector<A> x, y, d_x;
  std::vector<double> scratch;
};

template <class A>
std::vector<TurnRoom<A>> turn_rooms(const RowEncoding<A>& encoding, const Positions& at, Index chunks, Index dim,
                                    Index out_dim) {
  std::vector<TurnRoom<A>> rooms;
  rooms.reserve(static_cast<std::size_t>(chunks));
  const auto in = static_cast<std::size_t>(block_rows * dim), out = static_cast<std::size_t>(block_rows * out_dim);
  const auto scratch =
      static_cast<std::size_t>(encoding.turn_scratch == nullptr ? 0 : encoding.turn_scratch(encoding.self, dim));
  for (Index c = 0; c < chunks; ++c) {
    rooms.push_back({{at}, std::vector<A>(in), std::vector<A>(out), std::vector<A>(in), std::vector<double>(scratch)});
  }
  return rooms;
}

template <class A>
Index check_turn(const char* function, const RowEncoding<A>& encoding, const Positions& at,
                 const std::array<Index, 4>& x, const std::array<Index, 4>& y) {
  const Index out_dim = encoding.out_dim == nullptr ? x[3] : encoding.out_dim(encoding.self, x[3]);
  if (y != std::array<Index, 4>{x[0], x[1], x[2], out_dim}) {
    throw ShapeError(
        concat("[", function, "] y: must be [batch, heads, time, ", out_dim, "] for x with shape ", x, ", got ", y));
  }
  at.check(function, "at", at.axes(), x[0], x[2]);
  check_axes(function, at);
  Problem problem{.batch = x[0], .heads = x[1], .kv_heads = x[1], .q_len = x[2], .k_len = x[2], .dim = x[3]};
  problem.q_at = problem.k_at = &at;
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
void turn(const std::type_identity_t<RowEncoding<Compute<T>>>& encoding, Side side, const Positions& at,
          std::type_identity_t<View<const T, 4>> x, View<T, 4> y, const Executor& on) {
  using A = Compute<T>;
  const Index out_dim = check_turn("turn", encoding, at, x.shape, y.shape);
  const auto [batch, heads, time, dim] = x.shape;
  const Index blocks = (time + block_rows - 1) / block_rows, units = batch * heads * blocks;
  if (units == 0) return;
  const Index chunks = chunk_count(on, units);
  std::vector<TurnRoom<A>> rooms = turn_rooms<A>(encoding, at, chunks, dim, out_dim);
  in_chunks(on, chunks, units, [&, heads = heads, time = time, dim = dim](Index chunk, Index unit) {
    TurnRoom<A>& room = rooms[static_cast<std::size_t>(chunk)];
    RowTile tile = room.place.open(unit / blocks / heads, unit / blocks % heads, unit % blocks * block_rows, time);
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
void turn_backward(const std::type_identity_t<RowEncoding<A>>& encoding, Side side, const Positions& at,
                   std::type_identity_t<View<const A, 4>> x, std::type_identity_t<View<const A, 4>> d_y, View<A, 4> d_x,
                   const Executor& on) {
  const Index out_dim = check_turn("turn_backward", encoding, at, x.shape, d_y.shape);
  if (d_x.shape != x.shape) {
    throw ShapeError(concat("[turn_backward] d_x: must have x's shape ", x.shape, ", got ", d_x.shape));
  }
  const auto [batch, heads, time, dim] = x.shape;
  if (x.size() == 0) return;
  const Index units = batch * heads, chunks = chunk_count(on, units);
  std::vector<TurnRoom<A>> rooms = turn_rooms<A>(encoding, at, chunks, dim, out_dim);
  std::vector<A> params(static_cast<std::size_t>(units * encoding.param_size));
  in_chunks(on, chunks, units, [&, heads = heads, time = time, dim = dim](Index chunk, Index unit) {
    TurnRoom<A>& room = rooms[static_cast<std::size_t>(chunk)];
    for (Index first = 0; first < time; first += block_rows) {
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
