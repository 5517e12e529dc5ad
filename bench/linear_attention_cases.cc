// Linear attention with RoPE, and plain products whose state decays: a key with a value and a query with their sum is
// all the arithmetic there has to be.

#include <bearing/linear_attention.hpp>

#include "attention_models.hpp"

namespace bearing::bench {
namespace {

struct LinearCase {
  std::string name, encoding;
  LinearAttentionOptions options;
  Index length = 4096, dim = 64, threads = 1;
};

void add_linear(const LinearCase& c) {
  const AttentionShape shape = self_attention(c.length, c.dim);
  const double fmas = 2 * static_cast<double>(shape.heads * c.length * c.dim) * static_cast<double>(c.dim);
  add({.name = "linear_attention/" + c.name + "/" + attention_size<float>(shape),
       .threads = c.threads,
       .bars = {fma_limit<float>(fmas, c.threads)},
       .turns = turns_for(fmas, c.threads),
       .prepare = [=]() -> std::function<void()> {
         const AttentionMemory<float> memory(shape);
         const Encoded encoded = encode(c.encoding, shape);
         return [=] {
           const auto in = memory.inputs();
           linear_attention<float>({in.q, in.k, in.v}, memory.out(), {}, encoded.terms, c.options, executor(c.threads));
         };
       }});
}

/// As models with decays have it: no feature map, no denominator. `encoding`: none, retention (a rate per head),
/// gla (a gate per token and channel).
void add_products(const std::string& encoding, Index dim, Index threads) {
  add_linear({.name = encoding == "none" ? "causal_products" : "causal_" + encoding,
              .encoding = encoding,
              .options = {.mask = Mask::causal, .feature_map = FeatureMap::identity, .normaliser = Normaliser::none},
              .dim = dim,
              .threads = threads});
}

}  // namespace

void add_linear_attention_cases() {
  const LinearAttentionOptions all{.mask = Mask::none}, causal{.mask = Mask::causal};
  for (const Index dim : {64, 128}) {
    for (const Index threads : {1, 2}) {
      add_linear({.name = "rope", .encoding = "rope", .options = all, .dim = dim, .threads = threads});
      add_linear({.name = "causal_rope", .encoding = "rope", .options = causal, .dim = dim, .threads = threads});
    }
    add_linear({.name = "causal_rope", .encoding = "rope", .options = causal, .length = 16'384, .dim = dim});
    for (const char* encoding : {"none", "retention", "gla"}) add_products(encoding, dim, 1);
  }
}

}  // namespace bearing::bench
