// Attention, its backward, and merge(), for programs that JAX compiled.

#include <bearing/regions.hpp>

#include "jax_call.hpp"
#include "jax_handlers.hpp"
#include "regions.hpp"

namespace bearing::python::jax {

namespace {

/// Arrays that attention may have beside its tensors, in this order.
struct AttentionArrays {
  std::optional<Buffer> sinks, key_mask, visible;
  GivenNumbers q_positions, k_positions, k_lengths, q_starts, k_starts, block_table;

  explicit AttentionArrays(Frame& frame) {
    Optional optional(frame);
    optional.take(sinks);
    optional.take(q_positions);
    optional.take(k_positions);
    optional.take(k_lengths);
    optional.take(key_mask);
    optional.take(visible);
    optional.take(q_starts);
    optional.take(k_starts);
    optional.take(block_table);
  }

  template <class T>
  AttentionInputs<T> inputs(const Frame& frame, const std::array<Buffer, 3>& qkv, Index i) const {
    AttentionInputs<T> in{tensor<const T>(frame, qkv[0], i), tensor<const T>(frame, qkv[1], i),
                          tensor<const T>(frame, qkv[2], i)};
    in.q_positions = q_positions.positions(frame, i, in.q.shape[0]);
    in.k_positions = k_positions.positions(frame, i, in.q.shape[0]);
    in.block_table = block_table.matrix(frame, i);
    return in;
  }

  template <class A>
  AttentionOptions<A> options(const Frame& frame, Index i) const {
    AttentionOptions<A> out{.mask = mask_of(frame)};
    out.window = {frame.integer("window_before"), frame.integer("window_after")};
    out.band = band_of(frame.text("band"));
    if (frame.flag("scaled")) out.scale = frame.number("scale");
    out.soft_cap = frame.number("soft_cap");
    if (sinks) out.sinks.value = view<const A, 1>(frame, *sinks, i);
    out.k_lengths = k_lengths.list(frame, i);
    if (key_mask) out.key_mask = view<const bool, 2>(frame, *key_mask, i);
    if (visible) out.visible = view<const bool, 4>(frame, *visible, i);
    out.q_starts = q_starts.list(frame, i);
    out.k_starts = k_starts.list(frame, i);
    return out;
  }
};

/// body.template operator()<T, O>() for arrays of T and results of O: T, or its arithmetic's type.
template <class Body>
void with_types(const Buffer& array, const Buffer& result, const Body& body) {
  with_type(array, [&]<class T>() {
    if (result.type() == array.type()) return body.template operator()<T, T>();
    if (result.type() != type_of<Compute<T>>)
      throw ShapeError("[bearing.jax] arrays: must have the types of the trace");
    return body.template operator()<T, Compute<T>>();
  });
}

}  // namespace

void attention(Frame& frame) {
  const std::array<Buffer, 3> qkv{frame.argument(), frame.argument(), frame.argument()};
  const AttentionArrays arrays(frame);
  const Encodings encodings(frame);
  const Buffer out = frame.result(), lse = frame.result();
  const Executor all = executor(frame, "attention");
  const std::vector<Region> regions = regions_of(frame.text("regions"));
  with_types(qkv[0], out, [&]<class T, class O>() {
    using A = Compute<T>;
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      const AttentionInputs<T> in = arrays.inputs<T>(frame, qkv, i);
      const AttentionOptions<A> options = arrays.options<A>(frame, i);
      const View<O, 4> to = tensor<O>(frame, out, i);
      const View<A, 3> sums = view<A, 3>(frame, lse, i);
      if (regions.empty()) return bearing::attention<T>(in, to, sums, made.terms, options, on);
      attention_in_regions<T, O>(in, regions, to, sums, made.terms, options, on);
    });
  });
}

void attention_backward(Frame& frame) {
  const std::array<Buffer, 3> qkv{frame.argument(), frame.argument(), frame.argument()};
  const Buffer out = frame.argument(), lse = frame.argument(), d_out = frame.argument(), d_lse = frame.argument();
  const AttentionArrays arrays(frame);
  Encodings encodings(frame);
  const std::array<Buffer, 3> grads{frame.result(), frame.result(), frame.result()};
  std::optional<Buffer> d_sinks;
  if (arrays.sinks) {
    d_sinks = frame.result();
    clear(*d_sinks);
  }
  encodings.take_gradients();
  const Executor all = executor(frame, "attention_backward");
  const std::vector<Region> regions = regions_of(frame.text("regions"));
  with_types(qkv[0], out, [&]<class T, class O>() {
    using A = Compute<T>;
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      AttentionOptions<A> options = arrays.options<A>(frame, i);
      if (d_sinks) options.sinks.grad = view<A, 1>(frame, *d_sinks, i);
      const AttentionInputs<T> in = arrays.inputs<T>(frame, qkv, i);
      const AttentionResults<O> results{tensor<const O>(frame, out, i), view<const A, 3>(frame, lse, i),
                                        tensor<const O>(frame, d_out, i), view<const A, 3>(frame, d_lse, i)};
      const AttentionGrads<O> to{tensor<O>(frame, grads[0], i), tensor<O>(frame, grads[1], i),
                                 tensor<O>(frame, grads[2], i)};
      if (regions.empty()) return bearing::attention_backward<T, O>(in, results, to, made.terms, options, on);
      attention_in_regions_backward<T, O>(in, regions, results, to, made.terms, options, on);
    });
  });
}

void merge(Frame& frame) {
  const Buffer part = frame.argument(), part_lse = frame.argument(), out = frame.argument(), lse = frame.argument();
  const Buffer to = frame.result(), to_lse = frame.result();
  const Executor all = executor(frame, "merge");
  with_type(part, [&]<class T>() {
    using A = Compute<T>;
    frame.each_instance(all, [&](Index i, const Executor& on) {
      copy<T>(frame, out, to, i);
      copy<A>(frame, lse, to_lse, i);
      bearing::merge<T>(view<const T, 4>(frame, part, i), view<const A, 3>(frame, part_lse, i),
                        view<T, 4>(frame, to, i), view<A, 3>(frame, to_lse, i), on);
    });
  });
}

}  // namespace bearing::python::jax
