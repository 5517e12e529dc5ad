// Attention as PyTorch, ONNX Runtime and OpenBLAS compute it, on our memory, in our process. attention_peers.py holds
// what the first two run. Each result is compared with ours before it is timed.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <bearing/encodings/alibi.hpp>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "attention_models.hpp"
#include "openblas_attention.hpp"
#include "peers.hpp"
#include "python.hpp"

namespace bearing::bench {
namespace {

using python::memory;
using python::Object;

struct PeerCase {
  const char* peer;  // openblas, or a function of attention_peers.py
  std::string mask, encoding;
  AttentionShape shape;
  Index threads;
  bool backward = false;

  template <class T>
  std::string ours() const {
    if (shape.q_len == 1) return "attention_decode/" + attention_size<T>(shape);
    return (backward ? "attention_backward/" : "attention/") + attention_name<T>(mask, encoding, shape);
  }
};

/// What peers are given of an encoding: ALiBi's slopes or T5's table.
std::vector<float> parameters(const PeerCase& c) {
  if (c.encoding == "alibi") {
    const auto slopes = Alibi::published(c.shape.heads).slopes;
    return {slopes.begin(), slopes.end()};
  }
  if (c.encoding == "t5") {
    const Sizes sizes{.batch = 1,
                      .heads = c.shape.heads,
                      .kv_heads = c.shape.kv_heads,
                      .q_len = c.shape.q_len,
                      .k_len = c.shape.k_len,
                      .dim = c.shape.dim,
                      .value_dim = c.shape.dim};
    return Described("t5", sizes).parameters()[0].value;
  }
  return {0};
}

/// Our result, to compare with, where AttentionMemory puts it.
template <class T>
void compute_ours(const PeerCase& c, const AttentionMemory<T>& at) {
  const Encoded encoded = encode(c.encoding, c.shape);
  const auto options = visible_keys<float>(c.mask);
  const Executor& on = executor(c.threads);
  attention(at.inputs(), at.out(), at.lse(), encoded.terms, options, on);
  if (!c.backward) return;
  attention_backward(at.inputs(), {at.out(), at.lse(), at.d_out()}, at.grads(), encoded.terms, options, on);
}

const OpenBlas& openblas() {
  static const OpenBlas library(PyUnicode_AsUTF8(python::call("attention_peers", "openblas_library", nullptr).get()));
  return library;
}

std::function<void()> prepare_openblas(const PeerCase& c, const AttentionMemory<float>& at) {
  const auto slopes = std::make_shared<const std::vector<float>>(parameters(c));
  const View<float, 4> out = at.grads().d_q;  // free: as large as a result
  const auto step = openblas().attention(at.inputs(), out, c.mask == "causal",
                                         c.encoding == "alibi" ? slopes->data() : nullptr, executor(c.threads));
  step();
  float off = 0;
  for (Index i = 0; i < out.size(); ++i) off = std::max(off, std::abs(out.data[i] - at.out().data[i]));
  if (!(off <= 1e-4f))
    throw std::runtime_error("[openblas] computes something else: it is off by " + std::to_string(off));
  return [slopes, step] { step(); };
}

template <class T>
std::function<void()> prepare_python(const PeerCase& c, const AttentionMemory<T>& at) {
  const AttentionShape& s = c.shape;
  const auto bytes = [](Index n) { return static_cast<std::size_t>(n) * sizeof(T); };
  const Object inputs = memory(source(), 0, bytes(2 * s.q_size() + 2 * s.k_size()));
  const auto* const first = reinterpret_cast<const char*>(c.backward ? at.grads().d_q.data : at.out().data);
  const Object expected = memory(first, bytes(c.backward ? s.q_size() + 2 * s.k_size() : s.q_size()));
  const std::vector<float> numbers = parameters(c);
  const Object given = memory(numbers.data(), numbers.size() * sizeof(float));
  return python::call_each_time(python::call(
      "attention_peers", "prepare", "ssssLLLLLLLOOO", c.peer, c.mask.c_str(), c.encoding.c_str(), dtype_name<T>(),
      static_cast<long long>(s.batch), static_cast<long long>(s.heads), static_cast<long long>(s.kv_heads),
      static_cast<long long>(s.q_len), static_cast<long long>(s.k_len), static_cast<long long>(s.dim),
      static_cast<long long>(c.threads), inputs.get(), expected.get(), given.get()));
}

template <class T>
void add_peer(const PeerCase& c) {
  const double products = c.backward ? 5 : 2;
  const AttentionShape& s = c.shape;
  const double fmas = products * pairs_left(c.mask, s) * static_cast<double>(s.batch * s.heads * s.dim);
  add({.name = std::string("peer/") + c.peer + "/" + c.ours<T>(),
       .threads = c.threads,
       .bars = {{c.ours<T>() + "/" + std::to_string(c.threads), 1}},
       .peer = true,
       .turns = turns_for(2 * fmas, c.threads),
       .prepare = [=]() -> std::function<void()> {
         const AttentionMemory<T> at(c.shape);
         compute_ours(c, at);
         if constexpr (std::is_same_v<T, float>) {
           if (c.peer == std::string("openblas")) return prepare_openblas(c, at);
         }
         return prepare_python(c, at);
       }});
}

void add_plain(Index length, Index dim, Index threads) {
  const AttentionShape shape = self_attention(length, dim);
  for (const char* peer : {"pytorch_sdpa", "onnxruntime_mha", "openblas"}) {
    add_peer<float>({peer, "full", "none", shape, threads});
  }
  for (const char* peer : {"pytorch_sdpa", "onnxruntime_gqa", "openblas"}) {
    add_peer<float>({peer, "causal", "none", shape, threads});
  }
}

void add_biases(Index dim, Index threads) {
  const AttentionShape shape = self_attention(4096, dim);
  for (const char* peer : {"pytorch_sdpa", "pytorch_flex", "onnxruntime_mha", "openblas"}) {
    add_peer<float>({peer, "full", "alibi", shape, threads});
  }
  for (const char* peer : {"pytorch_sdpa", "onnxruntime_mha"}) {
    add_peer<float>({peer, "full", "t5", shape, threads});
  }
  add_peer<float>({"pytorch_flex", "causal", "none", shape, threads});
}

/// In a step the queries that share keys may be the rows of one head, which a knowing user has; it is far faster.
template <class T>
void add_grouped(Index threads) {
  for (const Index length : {512, 2048}) {
    add_peer<T>({"pytorch_sdpa", "causal", "none", grouped_prefill(length), threads});
  }
  for (const AttentionShape& shape : grouped_steps) {
    for (const char* peer : {"pytorch_sdpa", "pytorch_sdpa_rows"}) {
      add_peer<T>({peer, "full", "none", shape, threads});
    }
  }
}

}  // namespace

void add_attention_peer_cases() {
  const Object described = python::call("attention_peers", "described", nullptr);
  benchmark::AddCustomContext("peers", PyUnicode_AsUTF8(described.get()) + std::string(", ") + openblas().described());
  for (const Index dim : {64, 128}) {
    const AttentionShape shape = self_attention(4096, dim);
    for (const Index threads : {1, 2}) {
      add_plain(1024, dim, threads);
      add_plain(4096, dim, threads);
      add_biases(dim, threads);
      for (const char* mask : {"full", "causal"}) {
        add_peer<float>({"pytorch_autograd", mask, "none", shape, threads, true});
      }
    }
    add_peer<Bfloat16>({"pytorch_sdpa", "full", "none", shape, 1});
    add_peer<Float16>({"pytorch_sdpa", "full", "none", shape, 1});
    add_peer<Bfloat16>({"pytorch_autograd", "full", "none", shape, 1, true});
  }
  for (const Index threads : {1, 2}) {
    add_peer<float>({"pytorch_sdpa", "full", "none", {.q_len = 1, .k_len = 32'768, .dim = 128}, threads});
    add_grouped<float>(threads);
    add_grouped<Bfloat16>(threads);
    const AttentionShape grouped{.heads = 32, .kv_heads = 8, .dim = 128};
    add_peer<float>({"pytorch_sdpa", "causal", "none", grouped, threads});
    add_peer<float>({"onnxruntime_gqa", "causal", "none", grouped, threads});
  }
}

}  // namespace bearing::bench
