// Attention: every mask and encoding as a share of the machine's multiply-adds, counting only the
// arithmetic that the mask leaves; and one query against a long cache, as a share of reading it.

#include <bearing/target.hpp>
#include <fstream>
#include <iterator>

#include "attention_models.hpp"

namespace bearing::bench {
namespace {

struct AttentionCase {
  std::string mask, encoding;
  AttentionShape shape;
  Index threads;

  /// Queries with keys, weights with values, and the encoding's own.
  double fmas() const {
    const double products = 2 * pairs_left(mask, shape) + own_products(encoding, shape);
    return products * static_cast<double>(shape.batch * shape.heads * shape.dim);
  }
  template <class T>
  std::string name() const {
    return "attention/" + attention_name<T>(mask, encoding, shape);
  }
  /// The case without the encoding, in T.
  template <class T>
  Bar against_plain(double demand) const {
    return {AttentionCase{mask, "none", shape, threads}.name<T>() + "/" + std::to_string(threads), demand};
  }
};

template <class T>
void add_case(const AttentionCase& c, std::vector<Bar> bars) {
  using Options = AttentionOptions<Compute<T>>;
  add({.name = c.name<T>(),
       .threads = c.threads,
       .bars = std::move(bars),
       .turns = turns_for(c.fmas(), c.threads),
       .prepare = [=]() -> std::function<void()> {
         const AttentionMemory<T> memory(c.shape);
         const Options options = visible_keys<Compute<T>>(c.mask);
         if constexpr (std::is_same_v<T, double>) {
           return [=] { attention(memory.inputs(), memory.out(), memory.lse(), {}, options, executor(c.threads)); };
         } else {
           const Encoded encoded = encode(c.encoding, c.shape);
           return [=] {
             attention(memory.inputs(), memory.out(), memory.lse(), encoded.terms, options, executor(c.threads));
           };
         }
       }});
}

/// A share of the peak is demanded from 4,096 tokens on; below it is for information.
void add_share(const AttentionCase& c, double demand) {
  add_case<float>(c, {fma_limit<float>(c.fmas(), c.threads, c.shape.q_len >= 4096 ? demand : 0)});
}

void add_masks(Index length, Index dim, Index threads) {
  const bool one = threads == 1, narrow = dim == 64;
  const AttentionShape shape = self_attention(length, dim);
  add_share({"full", "none", shape, threads}, one ? (narrow ? 0.80 : 0.85) : (narrow ? 0.73 : 0.75));
  add_share({"causal", "none", shape, threads}, one ? (narrow ? 0.75 : 0.78) : (narrow ? 0.66 : 0.70));
}

/// What an encoding costs over none, 5 % for a bias by distance and 3 % for RoPE, or what share of the peak it reaches.
void add_encodings(Index dim, Index threads) {
  const AttentionShape shape = self_attention(4096, dim);
  const auto add_cost = [&](const char* encoding, double most) {
    const AttentionCase c{"full", encoding, shape, threads};
    add_case<float>(c, {c.against_plain<float>(1 / (1 + most)), fma_limit<float>(c.fmas(), threads)});
  };
  add_cost("alibi", 0.05);
  add_cost("t5", 0.05);
  add_cost("rope", 0.03);
  if (threads > 1) return;
  add_share({"full", "shaw", shape, threads}, 0.60);
  add_share({"causal", "txl", shape, threads}, 0.60);
  add_share({"full", "deberta v3", shape, threads}, 0.60);
  add_share({"full", "tupe", shape, threads}, 0.60);
  add_share({"window", "none", shape, threads}, 0);
}

/// Whether the kernels may use tiles of bfloat16: only their best target does.
bool has_tiles() {
  std::ifstream info("/proc/cpuinfo");
  return simd_target() == "avx3_bf16" &&
         std::string(std::istreambuf_iterator<char>(info), {}).find(" amx_bf16") != std::string::npos;
}

/// Widened to float: no slower than float. With tiles of bfloat16 beyond the peak of float.
template <class T>
void add_type(Index dim) {
  const AttentionCase c{"full", "none", self_attention(4096, dim), 1};
  const bool tiles = std::is_same_v<T, Bfloat16> && has_tiles();
  add_case<T>(c, {c.against_plain<float>(tiles ? 0 : 1), fma_limit<float>(c.fmas(), 1,
                                                                          !tiles      ? 0
                                                                          : dim == 64 ? 3.2
                                                                                      : 4.5)});
  if (!std::is_same_v<T, Bfloat16>) return;
  for (const char* encoding : {"alibi", "t5"}) {
    const AttentionCase biased{"full", encoding, c.shape, 1};
    add_case<T>(biased, {biased.against_plain<T>(1 / (tiles ? 1.10 : 1.05))});
  }
}

void add_double(Index dim) {
  const AttentionCase c{"full", "none", self_attention(4096, dim), 1};
  add_case<double>(c, {fma_limit<double>(c.fmas(), 1)});
}

/// One query of each sequence against all keys that are cached.
template <class T>
void add_decode(const AttentionShape& shape, Index threads, double demand) {
  const std::size_t cache = 2 * static_cast<std::size_t>(shape.k_size()) * sizeof(T);
  const std::string name = "attention_decode/" + attention_size<T>(shape);
  std::vector<Bar> bars = {{read_limit(cache, threads), demand}};
  if (threads == 2) bars.push_back({name + "/1"});
  add({.name = name, .threads = threads, .bars = bars, .turns = 21, .prepare = [=]() -> std::function<void()> {
         const AttentionMemory<T> memory(shape);
         return [=] {
           AttentionInputs<T> in = memory.inputs();
           in.q_positions = Positions(shape.k_len - 1);
           attention(in, memory.out(), {}, {}, visible_keys<float>("causal"), executor(threads));
         };
       }});
}

/// As a model of 8 billion numbers has it, of prompts and of steps for one user and for many.
template <class T>
void add_grouped(Index threads) {
  for (const Index length : {512, 2048}) {
    const AttentionCase c{"causal", "none", grouped_prefill(length), threads};
    add_case<T>(c, {fma_limit<float>(c.fmas(), threads)});
  }
  for (const AttentionShape& shape : grouped_steps) add_decode<T>(shape, threads, 0);
}

}  // namespace

void add_attention_cases(bool full) {
  for (const Index dim : {64, 128}) {
    for (const Index threads : {1, 2}) {
      add_masks(1024, dim, threads);
      add_masks(4096, dim, threads);
      if (full) add_masks(16'384, dim, threads);
      add_encodings(dim, threads);
    }
    add_type<Bfloat16>(dim);
    add_type<Float16>(dim);
    add_double(dim);
  }
  for (const Index threads : {1, 2}) {
    add_share({"causal", "none", {.heads = 32, .kv_heads = 8, .dim = 128}, threads}, 0);
    add_decode<float>({.q_len = 1, .k_len = 32'768, .dim = 128}, threads, 0.85);
    add_grouped<float>(threads);
    add_grouped<Bfloat16>(threads);
  }
}

}  // namespace bearing::bench
