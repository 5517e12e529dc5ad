// Biases of scores: the whole matrix against the memory that it fills, its gradient, and both as two plain loops.

#include <bearing/scores.hpp>
#include <memory>

#include "buffers.hpp"
#include "harness.hpp"
#include "score_models.hpp"

namespace bearing::bench {
namespace {

/// The matrix of an encoding.
void add_matrix(const std::string& name, Index threads, const std::vector<Bar>& bars) {
  add({.name = "bias_matrix/" + name + score_size,
       .threads = threads,
       .bars = bars,
       .prepare = [=]() -> std::function<void()> {
         const auto made = score_encoding(name);
         return [=] { bias_matrix(made->terms(), {}, {}, score_matrix(destination()), executor(threads)); };
       }});
}

void add_naive_matrices() {
  add({.name = std::string("naive/alibi") + score_size, .alone = false, .prepare = []() -> std::function<void()> {
         std::vector<float> slopes;
         const Value given = score_encoding("alibi")->spec().get("slopes");
         for (const Value& slope : std::get<Values>(given))
           slopes.push_back(static_cast<float>(std::get<double>(slope)));
         return [=] {
           const View<float, 3> b = score_matrix(destination());
           for (Index h = 0; h < score_heads; ++h) {
             const float slope = slopes[static_cast<std::size_t>(h)];
             for (Index i = 0; i < score_length; ++i) {
               for (Index j = 0; j < score_length; ++j) b(h, i, j) = -slope * static_cast<float>(std::abs(j - i));
             }
           }
         };
       }});
  // As frameworks do: the bucket of each pair of tokens, then a gather for each head.
  add({.name = std::string("naive/t5") + score_size, .alone = false, .prepare = []() -> std::function<void()> {
         const auto made = score_encoding("t5");
         const auto bucket = std::make_shared<const std::vector<Index>>(rows_of_pairs("t5", score_length));
         return [=] {
           const View<float, 3> b = score_matrix(destination());
           const View<const Index, 2> u = dense(bucket->data(), score_length, score_length);
           const float* table = made->parameters()[0].value.data();
           for (Index h = 0; h < score_heads; ++h) {
             for (Index i = 0; i < score_length; ++i) {
               for (Index j = 0; j < score_length; ++j) b(h, i, j) = table[u(i, j) * score_heads + h];
             }
           }
         };
       }});
}

void add_t5_gradient(Index threads) {
  std::vector<Bar> bars;  // loops have one thread
  if (threads == 1) bars.push_back({std::string("naive/t5_gradient") + score_size + "/1"});
  add({.name = std::string("bias_gradient/t5") + score_size,
       .threads = threads,
       .bars = bars,
       .prepare = [=]() -> std::function<void()> {
         fill_with_numbers(source(), score_bytes);
         const auto made = score_encoding("t5");
         return [=] {
           add_scores_backward(made->terms(), {},
                               bhtd<const float>(source().as<float>(), 1, score_heads, score_length, score_length), {},
                               executor(threads));
         };
       }});
}

/// The bucket map ready, as a framework keeps it between forward and backward.
void add_naive_t5_gradient() {
  add({.name = std::string("naive/t5_gradient") + score_size, .alone = false, .prepare = []() -> std::function<void()> {
         fill_with_numbers(source(), score_bytes);
         const auto made = score_encoding("t5");
         const auto bucket = std::make_shared<const std::vector<Index>>(rows_of_pairs("t5", score_length));
         return [=] {
           const View<float, 3> d_b = score_matrix(source());
           const View<const Index, 2> u = dense(bucket->data(), score_length, score_length);
           float* d_table = made->parameters()[0].grad.data();
           for (Index h = 0; h < score_heads; ++h) {
             for (Index i = 0; i < score_length; ++i) {
               for (Index j = 0; j < score_length; ++j) d_table[u(i, j) * score_heads + h] += d_b(h, i, j);
             }
           }
         };
       }});
}

}  // namespace

void add_score_cases() {
  add_naive_matrices();
  add_naive_t5_gradient();
  for (const Index threads : {1, 2}) {
    const Bar written{nt_write(score_bytes, threads), 0.9}, written_for_information{written.pattern};
    for (const char* name : {"alibi", "t5"}) {
      std::vector<Bar> bars = {written};
      if (threads == 1) bars.push_back({std::string("naive/") + name + score_size + "/1"});
      add_matrix(name, threads, bars);
    }
    for (const char* name : {"kerple", "sandwich", "fire"}) add_matrix(name, threads, {written_for_information});
    add_t5_gradient(threads);
  }
}

}  // namespace bearing::bench
