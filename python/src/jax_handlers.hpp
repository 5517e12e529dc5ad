#pragma once

#include "jax_ffi.hpp"

// What programs that JAX compiled call, by subject; jax_ffi.cc registers them. Handlers know nothing of Python: the
// attribute `plan` names what was registered when the program was traced (see Plan), and parameters are buffers like
// all others. Each says its arguments → results; those in brackets are there as bit n of the attribute `given` says.

namespace bearing::python::jax {

// q, k, v, [arrays of AttentionArrays], parameters → out, lse
void attention(Frame& frame);
// q, k, v, out, lse, d_out, d_lse, [the same], parameters → d_q, d_k, d_v, d_sinks where there are sinks, the
// parameters' gradients
void attention_backward(Frame& frame);
// part, part_lse, out, lse → out, lse
void merge(Frame& frame);

// q, k, v, [q_positions, k_positions, s, z], parameters → out, with `stateful` s and z
void linear_attention(Frame& frame);
// q, k, v, d_out, [q_positions, k_positions, s, z, d_s, d_z], parameters → d_q, d_k, d_v, with `stateful` d_s and d_z,
// the parameters' gradients
void linear_attention_backward(Frame& frame);

// x, [positions] → x turned, or with `backward` turned back
void rotate(Frame& frame);
// k, [old_positions, new_positions] → k moved, or with `backward` the transpose of it
void rebase(Frame& frame);
// k, by → k moved
void shift(Frame& frame);
// x, [at], parameters → T x
void turn(Frame& frame);
// x, d_y, [at], parameters → d_x, the parameters' gradients
void turn_backward(Frame& frame);
// [x, at], parameters → x + p, or p alone
void inputs(Frame& frame);
// the gradient of the rows, [at], parameters → the parameters' gradients
void inputs_backward(Frame& frame);

// [q_positions, k_positions], parameters → bias [heads, q_len, k_len]
void bias_matrix(Frame& frame);
// scores, [q, k, q_positions, k_positions], parameters → scores
void add_scores(Frame& frame);
// d_scores, [q, k, q_positions, k_positions], parameters → d_q and d_k where there are q and k, the parameters'
// gradients
void add_scores_backward(Frame& frame);
// p, out, [q_positions, k_positions], parameters → out
void add_values(Frame& frame);
// p, d_out, [q_positions, k_positions], parameters → d_p, the parameters' gradients
void add_values_backward(Frame& frame);

}  // namespace bearing::python::jax
