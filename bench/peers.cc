// PyTorch and ONNX Runtime on our memory, in our process. peers.py holds what they run; each case is compared with our
// result before it is timed, so that nobody is measured doing something else.

#include "peers.hpp"

#include <bearing/encodings/alibi.hpp>
#include <bearing/scores.hpp>
#include <memory>
#include <numeric>
#include <vector>

#include "buffers.hpp"
#include "harness.hpp"
#include "models.hpp"
#include "python.hpp"
#include "score_models.hpp"

namespace bearing::bench {
namespace {

using python::call_each_time;
using python::memory;
using python::Object;

/// The rows of our table as PyTorch and ONNX Runtime want them: cos and sin [length, pairs], each dense.
struct DenseTable {
  std::vector<float> cos, sin;
  Index length;

  static const DenseTable& get() {
    static const DenseTable table(long_table<float>(Pairing::half));
    return table;
  }
  std::size_t bytes() const { return cos.size() * sizeof(float); }

 private:
  explicit DenseTable(const RopeTable<float>& table)
      : cos(dense_copy(table.cos())), sin(dense_copy(table.sin())), length(table.length()) {}

  static std::vector<float> dense_copy(const View<const float, 2>& rows) {
    std::vector<float> copy;
    copy.reserve(static_cast<std::size_t>(rows.size()));
    for (Index t = 0; t < rows.shape[0]; ++t) {
      for (Index i = 0; i < rows.shape[1]; ++i) copy.push_back(rows(t, i));
    }
    return copy;
  }
};

std::vector<Index> counted(Index n) {
  std::vector<Index> at(static_cast<std::size_t>(n));
  std::iota(at.begin(), at.end(), Index{0});
  return at;
}

struct PeerCase {
  const char* peer;  // a function of peers.py
  Pairing pairing;
  Index batch, time;
  std::string ours;
};

template <class T>
void add_peer(const PeerCase& c, Index threads) {
  const std::size_t bytes = tensor_bytes<T>(c.batch * c.time);
  add({.name = std::string("peer/") + c.peer + "/" + c.ours,
       .threads = threads,
       .bars = {{c.ours + "/" + std::to_string(threads), 1}},
       .peer = true,
       .prepare = [=]() -> std::function<void()> {
         fill_with_numbers(source(), bytes);
         const auto& table = long_table<float>(c.pairing);
         const std::vector<Index> at = c.time == 1 ? scattered(c.batch) : counted(c.time);
         // Ours, for comparison, behind what the peer may write.
         const std::size_t behind = destination().bytes() / 2;
         const View<const T, 4> in = bthd(source().as<T>(), c.batch, c.time, heads, head_dim);
         T* const expected = destination().as<T>() + behind / sizeof(T);
         rotate_to(table, in, bthd(expected, c.batch, c.time, heads, head_dim),
                   Positions(dense(at.data(), c.batch, c.time)));
         const DenseTable& rows = DenseTable::get();
         const Object positions = memory(at.data(), at.size() * sizeof(Index));
         const Object src = memory(source(), 0, bytes), dst = memory(destination(), 0, bytes);
         const Object ours = memory(destination(), behind, bytes);
         const Object cos = memory(rows.cos.data(), rows.bytes()), sin = memory(rows.sin.data(), rows.bytes());
         return call_each_time(python::call("peers", "prepare_rotation", "sssLLLOOOOOO", c.peer, dtype_name<T>(),
                                            pairing_name(c.pairing), static_cast<long long>(c.batch),
                                            static_cast<long long>(c.time), static_cast<long long>(threads), src.get(),
                                            dst.get(), ours.get(), cos.get(), sin.get(), positions.get()));
       }});
}

void add_table_peer(Index threads) {
  add({.name = "peer/pytorch_outer_cos_sin/fill_table/f32/131072x64",
       .threads = threads,
       .bars = {{"fill_table/f32/131072x64/" + std::to_string(threads), 1}},
       .peer = true,
       .prepare = [=]() -> std::function<void()> {
         const DenseTable& rows = DenseTable::get();
         const Object cos = memory(rows.cos.data(), rows.bytes()), sin = memory(rows.sin.data(), rows.bytes());
         return call_each_time(python::call("peers", "prepare_table", "dLLOO", base,
                                            static_cast<long long>(rows.length), static_cast<long long>(threads),
                                            cos.get(), sin.get()));
       }});
}

/// A whole bias matrix as a framework makes it; its parameters are ALiBi's slopes or T5's table.
void add_bias_peer(const char* encoding, Index threads) {
  const std::string ours = std::string("bias_matrix/") + encoding + score_size;
  add({.name = "peer/pytorch/" + ours,
       .threads = threads,
       .bars = {{ours + "/" + std::to_string(threads), 1}},
       .peer = true,
       .prepare = [=]() -> std::function<void()> {
         const auto t5 = score_encoding("t5");
         const Alibi alibi = Alibi::published(score_heads);
         const AlibiBias<float> alibi_bias(alibi);
         const bool is_t5 = encoding == std::string("t5");
         bias_matrix(is_t5 ? t5->terms() : with(alibi_bias), {}, {}, score_matrix(destination()));
         const std::vector<float> slopes(alibi.slopes.begin(), alibi.slopes.end());
         const std::vector<float>& parameters = is_t5 ? t5->parameters()[0].value : slopes;
         const Object numbers = memory(parameters.data(), parameters.size() * sizeof(float));
         const Object expected = memory(destination(), 0, score_bytes);
         return call_each_time(python::call("peers", "prepare_bias", "sLLLOO", encoding,
                                            static_cast<long long>(score_heads), static_cast<long long>(score_length),
                                            static_cast<long long>(threads), numbers.get(), expected.get()));
       }});
}

/// Beside the one of our cases that works as the peer does: in place, or to a new tensor.
template <class T>
void add_prefill(const char* peer, Pairing pairing, Index threads, const char* where = "out_of_place") {
  const bool small = where == std::string("in_place") || sizeof(T) == 4;
  const Index time = small ? 4096 : 8192;  // those of our cases
  const std::string ours = std::string("rotate/") + dtype_name<T>() + "/" + pairing_name(pairing) + "/" + where + "/" +
                           size_text(tensor_bytes<T>(time));
  add_peer<T>({peer, pairing, 1, time, ours}, threads);
}

}  // namespace

void add_peer_cases(const std::string& interpreter) {
  python::start(interpreter);
  python::module("peers");
  for (const Index threads : {1, 2}) {
    for (const char* peer : {"pytorch_rotate_half", "pytorch_rotate_half_compiled"}) {
      add_prefill<float>(peer, Pairing::half, threads);
      add_prefill<Bfloat16>(peer, Pairing::half, threads);
    }
    add_prefill<float>("pytorch_complex", Pairing::interleaved, threads);
    add_prefill<float>("pytorch_complex_in_place", Pairing::interleaved, threads, "in_place");
    add_prefill<float>("onnxruntime", Pairing::half, threads);
    add_prefill<float>("onnxruntime", Pairing::interleaved, threads);
    add_prefill<Float16>("onnxruntime", Pairing::half, threads);
    add_table_peer(threads);
    add_bias_peer("alibi", threads);
    add_bias_peer("t5", threads);
  }
  for (const Index sequences : {1, 8, 64}) {
    const auto add_decode = [&](const char* peer, Pairing pairing) {
      const std::string ours =
          std::string("decode/f32/") + pairing_name(pairing) + "/in_place/" + std::to_string(sequences) + "_sequences";
      add_peer<float>({peer, pairing, sequences, 1, ours}, 1);
    };
    add_decode("pytorch_rotate_half", Pairing::half);
    add_decode("pytorch_complex_in_place", Pairing::interleaved);
    add_decode("onnxruntime", Pairing::half);
  }
  add_attention_peer_cases();
}

}  // namespace bearing::bench
