#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>
#include <cstddef>

#include "encodings/rotary/rope_bf16_avx512.hpp"
#include "encodings/rotary/rope_call.hpp"
#include "simd/target.hpp"
#include "text.hpp"
#include "workers.hpp"

namespace bearing {
namespace {

using text::concat;

/// Throws RangeError for positions that a given table does not have, or at which xPos' factors leave their range.
template <class C>
void check_rows(const char* function, const char* argument, const RopeTable<C>& table, const Positions& positions,
                Index batch, Index time) {
  const RopePhases<C>& phases = table.phases(function);
  if (!phases.given && !phases.decay.any()) return;
  for (Index axis = 0; axis < positions.axes(); ++axis) {
    for (Index b = 0; b < batch; ++b) {
      for (Index t = 0; t < time; ++t) {
        const double p = positions.real(axis, b, t);
        if (phases.given &&
            !(p >= 0 && p < static_cast<double>(table.length()) && p == static_cast<double>(static_cast<Index>(p)))) {
          throw RangeError(concat("[", function, "] ", argument, ": must be a position of the given table, which has ",
                                  table.length() == 0 ? concat("none") : concat("0 to ", table.length() - 1), ", got ",
                                  p));
        }
        if (phases.decay.any() && !phases.decay.in_range(p)) {
          throw RangeError(concat("[", function, "] ", argument,
                                  ": must keep xPos factors from 2^-100 to 2^100, got position ", p,
                                  ", too far from the centre ", phases.decay.centre));
        }
      }
    }
  }
}

}  // namespace

template <class C>
void check_table(const char* function, const char* argument, const RopeTable<C>& table, const Positions& positions,
                 Index batch, Index time) {
  table.phases(function);
  positions.check(function, argument, table.frequencies().axes, batch, time);
  check_rows(function, argument, table, positions, batch, time);
}
template void check_table(const char*, const char*, const RopeTable<double>&, const Positions&, Index, Index);
template void check_table(const char*, const char*, const RopeTable<float>&, const Positions&, Index, Index);

template <class T>
void check_heads(const char* function, const char* argument, const View<T, 4>& x, Index head_dim) {
  check_extents(function, argument, x);
  if (x.shape[3] != head_dim) {
    throw ShapeError(concat("[", function, "] ", argument, ": must have a last extent of head_dim = ", head_dim,
                            ", got ", x.shape[3], "; shape is ", x.shape));
  }
  check_memory(function, argument, x);
}

namespace {

/// Whether every line that is written starts on a cache line, as stores past the cache need.
template <class T>
bool can_stream(const RotateCall<T>& call) {
  const Index line = 64 / static_cast<Index>(sizeof(T));
  const bool strides =
      call.out.stride[0] % line == 0 && call.out.stride[1] % line == 0 && call.out.stride[2] % line == 0;
  return strides && call.out.stride[3] == 1 && call.in.stride[3] == 1 && call.begin % line == 0 &&
         call.pairs % line == 0 && call.frequencies->blocks.empty() &&
         reinterpret_cast<std::uintptr_t>(call.out.data) % 64 == 0;
}

/// From how many bytes on the quarters of a token take turns. Numbers of 16 bits are bound by their arithmetic where a
/// large cache has them.
template <class T>
constexpr Index least_in_turns() {
  return Index{sizeof(T) == 2 ? 96 : 16} << 20;
}

constexpr std::size_t stack_bytes = std::size_t{48} << 10;

/// How a call is cut into tasks, and the memory that they need. Making one is the last thing that may throw.
template <class T>
struct Plan {
  Index token_tasks = 0, head_tasks = 0;  ///< 0 for an empty tensor
  Index scratch_each = 0;                 ///< numbers
  AlignedArray<Compute<T>> scratch;       ///< empty where a stack frame has room

  Plan(RotateCall<T>& call, const Executor& on);
};

template <class T>
Plan<T>::Plan(RotateCall<T>& call, const Executor& on) {
  const Index bytes = call.in.size() * static_cast<Index>(sizeof(T));
  if (bytes == 0) return;
  const Index heads = call.in.shape[1], tokens = call.in.shape[0] * call.in.shape[2];
  call.pairs = call.frequencies->pairs;
  // Smaller tensors are in some cache, where fetching only costs.
  call.from_memory = bytes >= (Index{16} << 20);
  const simd::MemoryWalk& walk = simd::memory_walk();
  if (call.from_memory) call.ahead = sizeof(T) == 2 ? walk.narrow_ahead : walk.ahead;
  call.in_turns = walk.quarters && bytes >= least_in_turns<T>();
  call.heads_at_once = call.from_memory ? walk.heads : 8;
  call.stream = !call.in_place() && bytes >= (Index{32} << 20) && can_stream(call);

  // One task for what one thread does in a few microseconds; else several per worker, whole tokens if there are enough.
  const Index workers = workers_of(on);
  const Index pieces = workers < 2 || bytes < (Index{64} << 10) ? 1 : bytes < (Index{8} << 20) ? workers : 4 * workers;
  token_tasks = std::min(pieces, tokens);
  head_tasks = pieces == 1 ? 1 : std::min((pieces + token_tasks - 1) / token_tasks, heads);
  Index size = scratch_size(call);
  // From the second block of pairs on the call reads what it has written, which may lie in another layout.
  if (!call.frequencies->blocks.empty()) {
    RotateCall<T> later = call;
    later.in = View<const T, 4>(call.out);
    size = std::max(size, scratch_size(later));
  }
  scratch_each = (size + 15) / 16 * 16;
  if (static_cast<std::size_t>(scratch_each) * sizeof(Compute<T>) > stack_bytes) {
    scratch = AlignedArray<Compute<T>>(token_tasks * head_tasks * scratch_each);
  }
}

/// Turns a run of pairs that lie side by side.
template <class T>
void run_pairs(const RotateCall<T>& call, Plan<T>& plan, const Executor& on) {
  using C = Compute<T>;
  const Index heads = call.in.shape[1], tokens = call.in.shape[0] * call.in.shape[2];
  const Index token_tasks = plan.token_tasks, head_tasks = plan.head_tasks;
  const RotateKernel<T> kernel = rotate_kernel<T>();
  if (token_tasks * head_tasks == 1 && plan.scratch.size() == 0) {
    alignas(64) std::byte stack[stack_bytes];
    kernel(call, 0, tokens, 0, heads, reinterpret_cast<C*>(stack));
    return;
  }
  const auto task = [&](Index i, C* scratch) {
    const Index t = i / head_tasks, h = i % head_tasks;
    kernel(call, t * tokens / token_tasks, (t + 1) * tokens / token_tasks, h * heads / head_tasks,
           (h + 1) * heads / head_tasks, scratch);
  };
  if (plan.scratch.size() == 0) {
    parallel(on, token_tasks * head_tasks, [&](Index i) {
      alignas(64) std::byte stack[stack_bytes];
      task(i, reinterpret_cast<C*>(stack));
    });
  } else {
    parallel(on, token_tasks * head_tasks, [&](Index i) { task(i, plan.scratch.data() + i * plan.scratch_each); });
  }
}

/// Changes the call from part to part: a copy of it would be a twentieth of the time of one token.
template <class T>
void run(RotateCall<T>& call, Plan<T>& plan, const Executor& on) {
  if (plan.token_tasks == 0) return;  // and nothing bounds how many tokens there are
  const Index begin = call.begin;
  call.frequencies->each_block([&](Index first, Index count) {
    call.begin = begin + 2 * first;
    call.first_pair = first, call.pairs = count;
    call.avx512_bf16 = simd::has_avx512_bf16() && count % bf16_avx512_pairs == 0;
    run_pairs(call, plan, on);
    call.in = View<const T, 4>(call.out);  // the first has copied what others turn
  });
}

}  // namespace

template <class T>
void run(RotateCall<T>& call, const Executor& on) {
  Plan<T> plan(call, on);
  run(call, plan, on);
}

namespace {

struct Names {
  const char *function, *in, *out, *positions;
};

/// `In` is T or const T.
template <class T, class In>
RotateCall<T> checked_call(const Names& names, const RopeTable<Compute<T>>& table, const View<In, 4>& in,
                           const View<T, 4>& out, const Positions& positions, bool transposed) {
  const RopeFrequencies& f = table.frequencies();
  table.phases(names.function);
  check_heads(names.function, names.in, in, f.head_dim);
  if (in.shape != out.shape) {
    throw ShapeError(concat("[", names.function, "] ", names.out, ": must have the shape of ", names.in, ", ", in.shape,
                            ", got ", out.shape));
  }
  const bool same = in.data == out.data && in.stride == out.stride;
  if (!same) check_heads(names.function, names.out, out, f.head_dim);
  check_distinct(names.function, names.out, out);
  if (!same) check_same_or_apart(names.function, names.out, View<const T, 4>(in), out);
  check_table(names.function, names.positions, table, positions, in.shape[0], in.shape[2]);
  if (!positions.is_offset()) check_apart(names.function, names.out, out, names.positions, positions.memory());
  return {.phases = &table.phases(),
          .at = positions,
          .in = in,
          .out = out,
          .frequencies = &table.phases().frequencies,
          .begin = f.begin,
          .pairing = f.pairing,
          .transposed = transposed};
}

/// Rows that turn in place, and what the caller calls their positions.
template <class T>
struct Turned {
  View<T, 4> x;
  const Positions& positions;
  const char* name;
};

/// `together`: at the same positions.
template <class T>
void rotate_both(const RopeTable<Compute<T>>& table, const Turned<T>& q, const Turned<T>& k, bool together,
                 const Executor& on) {
  auto q_call = checked_call<T>({"rotate", "q", "q", q.name}, table, q.x, q.x, q.positions, false);
  auto k_call = checked_call<T>({"rotate", "k", "k", k.name}, table, k.x, k.x, k.positions, false);
  if (together && (k.x.shape[0] != q.x.shape[0] || k.x.shape[2] != q.x.shape[2])) {
    throw ShapeError(concat("[rotate] k: must have the batch and time of q, ", q.x.shape,
                            ", as both stand at the same positions, got ", k.x.shape));
  }
  check_apart("rotate", "k", k.x, "q", q.x);
  if (!k.positions.is_offset()) check_apart("rotate", "q", q.x, k.name, k.positions.memory());
  if (!q.positions.is_offset()) check_apart("rotate", "k", k.x, q.name, q.positions.memory());
  Plan<T> q_plan(q_call, on), k_plan(k_call, on);  // both before either writes
  run(q_call, q_plan, on);
  run(k_call, k_plan, on);
}

}  // namespace

template <class T>
void rotate(const RopeTable<ComputeInPlace<T>>& table, View<T, 4> x, const Positions& positions, const Executor& on) {
  auto call = checked_call<T>({"rotate", "x", "x", "positions"}, table, x, x, positions, false);
  run(call, on);
}

template <class T>
void rotate_to(const RopeTable<ComputeInPlace<T>>& table, std::type_identity_t<View<const T, 4>> in, View<T, 4> out,
               const Positions& positions, const Executor& on) {
  auto call = checked_call<T>({"rotate_to", "in", "out", "positions"}, table, in, out, positions, false);
  run(call, on);
}

template <class T>
void rotate(const RopeTable<ComputeInPlace<T>>& table, View<T, 4> q, const Positions& q_positions, View<T, 4> k,
            const Positions& k_positions, const Executor& on) {
  rotate_both<T>(table, {q, q_positions, "q_positions"}, {k, k_positions, "k_positions"}, false, on);
}

template <class T>
void rotate(const RopeTable<ComputeInPlace<T>>& table, View<T, 4> q, View<T, 4> k, const Positions& positions,
            const Executor& on) {
  rotate_both<T>(table, {q, positions, "positions"}, {k, positions, "positions"}, true, on);
}

template <class T>
void rotate_backward(const RopeTable<ComputeInPlace<T>>& table, View<T, 4> d, const Positions& positions,
                     const Executor& on) {
  auto call = checked_call<T>({"rotate_backward", "d", "d", "positions"}, table, d, d, positions, true);
  run(call, on);
}

template <class T>
void rotate_backward_to(const RopeTable<ComputeInPlace<T>>& table, std::type_identity_t<View<const T, 4>> d_out,
                        View<T, 4> d_in, const Positions& positions, const Executor& on) {
  auto call =
      checked_call<T>({"rotate_backward_to", "d_out", "d_in", "positions"}, table, d_out, d_in, positions, true);
  run(call, on);
}

#define BEARING_INSTANTIATE(T)                                                                                   \
  template void check_heads(const char*, const char*, const View<T, 4>&, Index);                                 \
  template void check_heads(const char*, const char*, const View<const T, 4>&, Index);                           \
  template void run(RotateCall<T>&, const Executor&);                                                            \
  template void rotate(const RopeTable<Compute<T>>&, View<T, 4>, const Positions&, const Executor&);             \
  template void rotate_to<T>(const RopeTable<Compute<T>>&, std::type_identity_t<View<const T, 4>>, View<T, 4>,   \
                             const Positions&, const Executor&);                                                 \
  template void rotate(const RopeTable<Compute<T>>&, View<T, 4>, View<T, 4>, const Positions&, const Executor&); \
  template void rotate(const RopeTable<Compute<T>>&, View<T, 4>, const Positions&, View<T, 4>, const Positions&, \
                       const Executor&);                                                                         \
  template void rotate_backward(const RopeTable<Compute<T>>&, View<T, 4>, const Positions&, const Executor&);    \
  template void rotate_backward_to<T>(const RopeTable<Compute<T>>&, std::type_identity_t<View<const T, 4>>,      \
                                      View<T, 4>, const Positions&, const Executor&);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(Bfloat16)
BEARING_INSTANTIATE(Float16)
#undef BEARING_INSTANTIATE

}  // namespace bearing
