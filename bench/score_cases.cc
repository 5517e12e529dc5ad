// Biases of scores: the whole matrix against the memory that it fills, its gradient, and both as two plain loops.

#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/fire.hpp>
#include <bearing/encodings/kerple.hpp>
#include <bearing/encodings/sandwich.hpp>
#include <bearing/reference/t5.hpp>
#include <bearing/scores.hpp>
#include <memory>

#include "buffers.hpp"
#include "harness.hpp"
#include "score_models.hpp"

namespace bearing::bench {
namespace {

/// The matrix of an encoding that `make` makes, which keeps its parameters.
template <class Make>
void add_matrix(const std::string& name, Index threads, const std::vector<Bar>& bars, const Make& make) {
  add({.name = "bias_matrix/" + name + score_size,
       .threads = threads,
       .bars = bars,
       .prepare = [=]() -> std::function<void()> {
         const auto made = make();
         return [=] { bias_matrix(with(made->bias), {}, {}, score_matrix(destination()), executor(threads)); };
       }});
}

struct AlibiCase {
  AlibiBias<float> bias{Alibi::published(score_heads)};
};
struct KerpleCase {
  Numbers r1{score_heads}, r2{score_heads};
  KerpleBias<float> bias{{KerpleForm::logarithmic}, positive(r1).param(score_heads), positive(r2).param(score_heads)};
  static Numbers& positive(Numbers& numbers) {
    for (float& x : numbers.value) x = std::abs(x);
    return numbers;
  }
};
struct SandwichCase {
  SandwichBias<float> bias{{.heads = score_heads}};
};
struct FireCase {
  Numbers c{1}, multiplier{1}, hidden_weight{32}, hidden_bias{32}, out_weight{score_heads * 32}, out_bias{score_heads};
  FireBias<float> bias{{},
                       {c.param(1), multiplier.param(1), hidden_weight.param(32), hidden_bias.param(32),
                        out_weight.param(score_heads, 32), out_bias.param(score_heads)}};
};

void add_naive_matrices() {
  add({.name = std::string("naive/alibi") + score_size, .prepare = []() -> std::function<void()> {
         const auto slopes = std::make_shared<const std::vector<double>>(Alibi::published(score_heads).slopes);
         return [=] {
           const View<float, 3> b = score_matrix(destination());
           for (Index h = 0; h < score_heads; ++h) {
             const auto slope = static_cast<float>((*slopes)[static_cast<std::size_t>(h)]);
             for (Index i = 0; i < score_length; ++i) {
               for (Index j = 0; j < score_length; ++j) b(h, i, j) = -slope * static_cast<float>(std::abs(j - i));
             }
           }
         };
       }});
  // As frameworks do: a bucket for each pair of tokens once, then a gather for each head.
  add({.name = std::string("naive/t5") + score_size, .prepare = []() -> std::function<void()> {
         const auto made = std::make_shared<T5Case>();
         const auto bucket =
             std::make_shared<std::vector<Index>>(static_cast<std::size_t>(score_length * score_length));
         return [=] {
           const View<float, 3> b = score_matrix(destination());
           const View<Index, 2> u = dense(bucket->data(), score_length, score_length);
           for (Index i = 0; i < score_length; ++i) {
             for (Index j = 0; j < score_length; ++j) u(i, j) = reference::t5_bucket(t5_spec, j - i);
           }
           const auto table = made->table.param(t5_spec.buckets, score_heads).value;
           for (Index h = 0; h < score_heads; ++h) {
             for (Index i = 0; i < score_length; ++i) {
               for (Index j = 0; j < score_length; ++j) b(h, i, j) = table(u(i, j), h);
             }
           }
         };
       }});
}

void add_t5_gradient(Index threads) {
  add({.name = std::string("bias_gradient/t5") + score_size,
       .threads = threads,
       .bars = {{std::string("naive/t5_gradient") + score_size + "/1", 1}},
       .prepare = [=]() -> std::function<void()> {
         fill_with_numbers(source(), score_bytes);
         const auto made = std::make_shared<T5Case>();
         return [=] {
           add_scores_backward(with(made->bias), {},
                               bhtd<const float>(source().as<float>(), 1, score_heads, score_length, score_length), {},
                               executor(threads));
         };
       }});
}

/// The bucket map ready, as a framework keeps it between forward and backward.
void add_naive_t5_gradient() {
  add({.name = std::string("naive/t5_gradient") + score_size, .prepare = []() -> std::function<void()> {
         fill_with_numbers(source(), score_bytes);
         const auto made = std::make_shared<T5Case>();
         const auto bucket = std::make_shared<std::vector<Index>>();
         for (Index i = 0; i < score_length; ++i) {
           for (Index j = 0; j < score_length; ++j) bucket->push_back(reference::t5_bucket(t5_spec, j - i));
         }
         return [=] {
           const View<float, 3> d_b = score_matrix(source());
           const View<Index, 2> u = dense(bucket->data(), score_length, score_length);
           const auto d_table = made->table.param(t5_spec.buckets, score_heads).grad;
           for (Index h = 0; h < score_heads; ++h) {
             for (Index i = 0; i < score_length; ++i) {
               for (Index j = 0; j < score_length; ++j) d_table(u(i, j), h) += d_b(h, i, j);
             }
           }
         };
       }});
}

template <class Made>
auto maker() {
  return [] { return std::make_shared<const Made>(); };
}

}  // namespace

void add_score_cases() {
  add_naive_matrices();
  add_naive_t5_gradient();
  for (const Index threads : {1, 2}) {
    const Bar written{nt_write(score_bytes, threads), 0.9}, written_for_information{written.pattern};
    const auto naive = [&](const char* name) { return Bar{std::string("naive/") + name + score_size + "/1", 1}; };
    add_matrix("alibi", threads, {written, naive("alibi")}, maker<AlibiCase>());
    add_matrix("t5", threads, {written, naive("t5")}, maker<T5Case>());
    add_matrix("kerple", threads, {written_for_information}, maker<KerpleCase>());
    add_matrix("sandwich", threads, {written_for_information}, maker<SandwichCase>());
    add_matrix("fire", threads, {written_for_information}, maker<FireCase>());
    add_t5_gradient(threads);
  }
}

}  // namespace bearing::bench
