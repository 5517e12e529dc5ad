// Linear attention, its state and its backward, for programs that JAX compiled.

#include <bearing/linear_attention.hpp>

#include "calls.hpp"
#include "jax_call.hpp"
#include "jax_handlers.hpp"

namespace bearing::python::jax {

namespace {

LinearAttentionOptions options_of(const Frame& frame) {
  LinearAttentionOptions out{.mask = mask_of(frame)};
  const std::string_view map = frame.text("feature_map");
  if (map == "relu") out.feature_map = FeatureMap::relu;
  if (map == "identity") out.feature_map = FeatureMap::identity;
  if (frame.text("normaliser") == "none") out.normaliser = Normaliser::none;
  out.epsilon = frame.number("epsilon");
  return out;
}

/// (s, z), or nothing.
struct StateBuffers {
  std::optional<Buffer> s, z;

  template <class A>
  LinearState<A> state(const Frame& frame, Index i) const {
    LinearState<A> out;
    if (s) out.s = view<A, 4>(frame, *s, i);
    if (z) out.z = view<A, 3>(frame, *z, i);
    return out;
  }
  /// Instance i of another state, where it has one, else zeros.
  template <class A>
  void begin_as(const StateBuffers& other, const Frame& frame, Index i) const {
    for (const auto& [to, from] : {std::pair(&s, &other.s), std::pair(&z, &other.z)}) {
      if (!*to) continue;
      if (*from)
        copy<A>(frame, **from, **to, i);
      else if ((*to)->size() > 0)
        std::memset(frame.at<A>(**to, i), 0, static_cast<std::size_t>((*to)->size()) * sizeof(A));
    }
  }
};

/// The arrays of a call, and where its state goes.
struct Call {
  std::array<Buffer, 3> qkv;
  GivenNumbers q_positions, k_positions;

  template <class T>
  LinearAttentionInputs<T> inputs(const Frame& frame, Index i) const {
    LinearAttentionInputs<T> in{tensor<const T>(frame, qkv[0], i), tensor<const T>(frame, qkv[1], i),
                                tensor<const T>(frame, qkv[2], i)};
    in.q_positions = q_positions.positions(frame, i, in.q.shape[0]);
    in.k_positions = k_positions.positions(frame, i, in.q.shape[0]);
    return in;
  }
};

}  // namespace

void linear_attention(Frame& frame) {
  Call call{{frame.argument(), frame.argument(), frame.argument()}, {}, {}};
  StateBuffers start, after;
  Optional optional(frame);
  optional.take(call.q_positions);
  optional.take(call.k_positions);
  optional.take(start.s);
  optional.take(start.z);
  const Encodings encodings(frame);
  const Buffer out = frame.result();
  if (frame.flag("stateful")) after = {frame.result(), frame.result()};
  const Executor all = executor(frame, "linear_attention");
  with_type(out, [&]<class T>() {
    using A = Compute<T>;
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      after.begin_as<A>(start, frame, i);
      errors_as("[linear_attention] encodings", "[linear_attention] terms", [&] {
        bearing::linear_attention<T>(call.inputs<T>(frame, i), tensor<T>(frame, out, i), after.state<A>(frame, i),
                                     made.terms, options_of(frame), on);
      });
    });
  });
}

void linear_attention_backward(Frame& frame) {
  Call call{{frame.argument(), frame.argument(), frame.argument()}, {}, {}};
  const Buffer d_out = frame.argument();
  StateBuffers start, d_after, d_start;
  Optional optional(frame);
  optional.take(call.q_positions);
  optional.take(call.k_positions);
  optional.take(start.s);
  optional.take(start.z);
  optional.take(d_after.s);
  optional.take(d_after.z);
  Encodings encodings(frame);
  const std::array<Buffer, 3> grads{frame.result(), frame.result(), frame.result()};
  if (frame.flag("stateful")) d_start = {frame.result(), frame.result()};
  encodings.take_gradients();
  const Executor all = executor(frame, "linear_attention_backward");
  with_type(d_out, [&]<class T>() {
    using A = Compute<T>;
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      d_start.begin_as<A>(d_after, frame, i);
      bearing::linear_attention_backward<T>(call.inputs<T>(frame, i), tensor<const T>(frame, d_out, i),
                                            start.state<const A>(frame, i),
                                            {tensor<T>(frame, grads[0], i), tensor<T>(frame, grads[1], i),
                                             tensor<T>(frame, grads[2], i), d_start.state<A>(frame, i)},
                                            made.terms, options_of(frame), on);
    });
  });
}

}  // namespace bearing::python::jax
