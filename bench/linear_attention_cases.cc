// Linear attention with RoPE: a key with a value and a query with their sum is all the arithmetic there has to be.

#include <bearing/linear_attention.hpp>

#include "attention_models.hpp"

namespace bearing::bench {
namespace {

void add_linear(Mask mask, Index length, Index dim, Index threads) {
  const AttentionShape shape = self_attention(length, dim);
  const double fmas = 2 * static_cast<double>(shape.heads * length * dim) * static_cast<double>(dim);
  add({.name = std::string("linear_attention/") + (mask == Mask::none ? "rope" : "causal_rope") + "/" +
               attention_size<float>(shape),
       .threads = threads,
       .bars = {fma_limit<float>(fmas, threads)},
       .turns = turns_for(fmas, threads),
       .prepare = [=]() -> std::function<void()> {
         const AttentionMemory<float> memory(shape);
         const Encoded encoded = encode("rope", shape);
         return [=] {
           const auto in = memory.inputs();
           linear_attention<float>({in.q, in.k, in.v}, memory.out(), {}, encoded.terms, {.mask = mask},
                                   executor(threads));
         };
       }});
}

}  // namespace

void add_linear_attention_cases() {
  for (const Index dim : {64, 128}) {
    for (const Index threads : {1, 2}) {
      add_linear(Mask::none, 4096, dim, threads);
      add_linear(Mask::causal, 4096, dim, threads);
    }
    add_linear(Mask::causal, 16'384, dim, 1);
  }
}

}  // namespace bearing::bench
