// The gradients of attention. Five products are counted, without which there is no backward in linear memory: scores
// again, the gradients of weights, and those of queries, keys and values.

#include "attention_models.hpp"

namespace bearing::bench {
namespace {

template <class T>
void add_backward(const std::string& mask, const std::string& encoding, Index dim, Index threads, double demand) {
  const AttentionShape shape = self_attention(4096, dim);
  const double fmas = 5 * pairs_left(mask, shape) * static_cast<double>(shape.heads * dim);
  add({.name = "attention_backward/" + attention_name<T>(mask, encoding, shape),
       .threads = threads,
       .bars = {fma_limit<float>(fmas, threads, demand)},
       .turns = turns_for(fmas, threads),
       .prepare = [=]() -> std::function<void()> {
         const AttentionMemory<T> memory(shape);
         const Encoded encoded = encode(encoding, shape);
         attention(memory.inputs(), memory.out(), memory.lse(), encoded.terms, visible_keys<float>(mask),
                   executor(threads));
         return [=] {
           attention_backward(memory.inputs(), {memory.out(), memory.lse(), memory.d_out()}, memory.grads(),
                              encoded.terms, visible_keys<float>(mask), executor(threads));
         };
       }});
}

}  // namespace

void add_attention_backward_cases() {
  for (const Index dim : {64, 128}) {
    for (const Index threads : {1, 2}) {
      add_backward<float>("full", "none", dim, threads, threads == 1 ? 0.70 : 0.60);
      add_backward<float>("causal", "none", dim, threads, 0.60);
    }
    add_backward<Bfloat16>("full", "none", dim, 1, 0);
    add_backward<float>("full", "alibi", dim, 1, 0);
    add_backward<float>("full", "t5", dim, 1, 0);
  }
}

}  // namespace bearing::bench
