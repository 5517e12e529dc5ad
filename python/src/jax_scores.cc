// Scores and values of encodings over whole tensors, for programs that JAX compiled.

#include <bearing/scores.hpp>

#include "jax_call.hpp"
#include "jax_handlers.hpp"

namespace bearing::python::jax {

void bias_matrix(Frame& frame) {
  GivenNumbers q_positions, k_positions;
  Optional optional(frame);
  optional.take(q_positions);
  optional.take(k_positions);
  const Encodings encodings(frame);
  const Buffer scores = frame.result();
  const Executor all = executor(frame, "bias_matrix");
  with_type(scores, [&]<class T>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<Compute<T>> made(encodings, i);
      bearing::bias_matrix<T>(made.terms, q_positions.positions(frame, i, 1), k_positions.positions(frame, i, 1),
                              view<T, 3>(frame, scores, i), on);
    });
  });
}

namespace {

/// Queries and keys that scores may depend on, and where they stand.
struct ScoreArrays {
  std::optional<Buffer> q, k;
  GivenNumbers q_positions, k_positions;

  explicit ScoreArrays(Frame& frame) {
    Optional optional(frame);
    optional.take(q);
    optional.take(k);
    optional.take(q_positions);
    optional.take(k_positions);
  }

  template <class A>
  ScoreInputs<A> inputs(const Frame& frame, Index i, Index batch) const {
    ScoreInputs<A> in{q_positions.positions(frame, i, batch), k_positions.positions(frame, i, batch), {}, {}, 1};
    if (q) in.q = tensor<const A>(frame, *q, i);
    if (k) in.k = tensor<const A>(frame, *k, i);
    in.scale = static_cast<A>(frame.number("scale"));
    return in;
  }
};

/// The gradient of an argument that a call may not have: the next result, from zero.
std::optional<Buffer> gradient_of(Frame& frame, const std::optional<Buffer>& argument) {
  if (!argument) return std::nullopt;
  const Buffer gradient = frame.result();
  clear(gradient);
  return gradient;
}

}  // namespace

void add_scores(Frame& frame) {
  const Buffer scores = frame.argument();
  const ScoreArrays arrays(frame);
  const Encodings encodings(frame);
  const Buffer sum = frame.result();
  const Executor all = executor(frame, "add_scores");
  with_arithmetic(scores, [&]<class A>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      copy<A>(frame, scores, sum, i);
      const View<A, 4> to = view<A, 4>(frame, sum, i);
      bearing::add_scores<A>(made.terms, arrays.inputs<A>(frame, i, to.shape[0]), to, on);
    });
  });
}

void add_scores_backward(Frame& frame) {
  const Buffer d_scores = frame.argument();
  const ScoreArrays arrays(frame);
  Encodings encodings(frame);
  const std::optional<Buffer> d_q = gradient_of(frame, arrays.q), d_k = gradient_of(frame, arrays.k);
  encodings.take_gradients();
  const Executor all = executor(frame, "add_scores_backward");
  with_arithmetic(d_scores, [&]<class A>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      const View<const A, 4> from = view<const A, 4>(frame, d_scores, i);
      QueryKeyGrads<A> grads;
      if (d_q) grads.d_q = tensor<A>(frame, *d_q, i);
      if (d_k) grads.d_k = tensor<A>(frame, *d_k, i);
      bearing::add_scores_backward<A>(made.terms, arrays.inputs<A>(frame, i, from.shape[0]), from, grads, on);
    });
  });
}

void add_values(Frame& frame) {
  const Buffer p = frame.argument(), out = frame.argument();
  GivenNumbers q_positions, k_positions;
  Optional optional(frame);
  optional.take(q_positions);
  optional.take(k_positions);
  const Encodings encodings(frame);
  const Buffer sum = frame.result();
  const Executor all = executor(frame, "add_values");
  with_arithmetic(out, [&]<class A>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      copy<A>(frame, out, sum, i);
      const View<A, 4> to = tensor<A>(frame, sum, i);
      bearing::add_values<A>(made.terms, q_positions.positions(frame, i, to.shape[0]),
                             k_positions.positions(frame, i, to.shape[0]), view<const A, 4>(frame, p, i), to, on);
    });
  });
}

void add_values_backward(Frame& frame) {
  const Buffer p = frame.argument(), d_out = frame.argument();
  GivenNumbers q_positions, k_positions;
  Optional optional(frame);
  optional.take(q_positions);
  optional.take(k_positions);
  Encodings encodings(frame);
  const Buffer d_p = frame.result();
  clear(d_p);
  encodings.take_gradients();
  const Executor all = executor(frame, "add_values_backward");
  with_arithmetic(d_out, [&]<class A>() {
    frame.each_instance(all, [&](Index i, const Executor& on) {
      const MadeTerms<A> made(encodings, i);
      const View<const A, 4> weights = view<const A, 4>(frame, p, i);
      const Index batch = weights.shape[0];
      bearing::add_values_backward<A>(made.terms, q_positions.positions(frame, i, batch),
                                      k_positions.positions(frame, i, batch), weights, tensor<const A>(frame, d_out, i),
                                      view<A, 4>(frame, d_p, i), on);
    });
  });
}

}  // namespace bearing::python::jax
