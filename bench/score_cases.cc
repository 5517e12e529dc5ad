// Biases of scores: the whole matrix against the memory that it fills, its gradient, and both as two plain loops.

#include <bearing/encodings/alibi.hpp>
#include <bearing/encodings/fire.hpp>
#include <bearing/encodings/kerple.hpp>
#include <bearing/encodings/sandwich.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/reference/t5.hpp>
#include <bearing/scores.hpp>
#include <cmath>
#include <memory>
#include <numeric>

#include "buffers.hpp"
#include "harness.hpp"

namespace bearing::bench {
namespace {

constexpr Index score_heads = 16, length = 2048;
constexpr std::size_t matrix_bytes = std::size_t{score_heads * length * length} * sizeof(float);
constexpr const char* size = "/f32/16x2048x2048";
constexpr T5 t5{.direction = T5Direction::bidirectional};

View<float, 3> matrix(HugeBuffer& buffer) { return dense(buffer.as<float>(), score_heads, length, length); }

/// Numbers between −1 and 1, and room for their gradient.
struct Numbers {
  explicit Numbers(Index n) : value(static_cast<std::size_t>(n)), grad(value.size()) {
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<float>(std::sin(static_cast<double>(i + 1)));
  }
  template <class... I>
  Param<float, sizeof...(I)> param(I... extent) {
    return {dense<const float>(value.data(), extent...), dense(grad.data(), extent...)};
  }
  std::vector<float> value, grad;
};

/// The matrix of an encoding that `make` makes, which keeps its parameters.
template <class Make>
void add_matrix(const std::string& name, Index threads, const std::vector<Bar>& bars, const Make& make) {
  add({.name = "bias_matrix/" + name + size,
       .threads = threads,
       .bars = bars,
       .prepare = [=]() -> std::function<void()> {
         const auto made = make();
         return [=] { bias_matrix(with(made->bias), {}, {}, matrix(destination()), executor(threads)); };
       }});
}

struct AlibiCase {
  AlibiBias<float> bias{Alibi::published(score_heads)};
};
struct T5Case {
  Numbers table{t5.buckets * score_heads};
  T5Bias<float> bias{t5, table.param(t5.buckets, score_heads)};
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
  add({.name = std::string("naive/alibi") + size, .prepare = []() -> std::function<void()> {
         const auto slopes = std::make_shared<const std::vector<double>>(Alibi::published(score_heads).slopes);
         return [=] {
           const View<float, 3> b = matrix(destination());
           for (Index h = 0; h < score_heads; ++h) {
             const auto slope = static_cast<float>((*slopes)[static_cast<std::size_t>(h)]);
             for (Index i = 0; i < length; ++i) {
               for (Index j = 0; j < length; ++j) b(h, i, j) = -slope * static_cast<float>(std::abs(j - i));
             }
           }
         };
       }});
  // As frameworks do: a bucket for each pair of tokens once, then a gather for each head.
  add({.name = std::string("naive/t5") + size, .prepare = []() -> std::function<void()> {
         const auto made = std::make_shared<T5Case>();
         const auto bucket = std::make_shared<std::vector<Index>>(static_cast<std::size_t>(length * length));
         return [=] {
           const View<float, 3> b = matrix(destination());
           const View<Index, 2> u = dense(bucket->data(), length, length);
           for (Index i = 0; i < length; ++i) {
             for (Index j = 0; j < length; ++j) u(i, j) = reference::t5_bucket(t5, j - i);
           }
           const auto table = made->table.param(t5.buckets, score_heads).value;
           for (Index h = 0; h < score_heads; ++h) {
             for (Index i = 0; i < length; ++i) {
               for (Index j = 0; j < length; ++j) b(h, i, j) = table(u(i, j), h);
             }
           }
         };
       }});
}

void add_t5_gradient(Index threads) {
  add({.name = std::string("bias_gradient/t5") + size,
       .threads = threads,
       .bars = {{std::string("naive/t5_gradient") + size + "/1", 1}},
       .prepare = [=]() -> std::function<void()> {
         fill_with_numbers(source(), matrix_bytes);
         const auto made = std::make_shared<T5Case>();
         return [=] {
           add_scores_backward(with(made->bias), {},
                               bhtd<const float>(source().as<float>(), 1, score_heads, length, length), {},
                               executor(threads));
         };
       }});
}

/// The bucket map ready, as a framework keeps it between forward and backward.
void add_naive_t5_gradient() {
  add({.name = std::string("naive/t5_gradient") + size, .prepare = []() -> std::function<void()> {
         fill_with_numbers(source(), matrix_bytes);
         const auto made = std::make_shared<T5Case>();
         const auto bucket = std::make_shared<std::vector<Index>>();
         for (Index i = 0; i < length; ++i) {
           for (Index j = 0; j < length; ++j) bucket->push_back(reference::t5_bucket(t5, j - i));
         }
         return [=] {
           const View<float, 3> d_b = matrix(source());
           const View<Index, 2> u = dense(bucket->data(), length, length);
           const auto d_table = made->table.param(t5.buckets, score_heads).grad;
           for (Index h = 0; h < score_heads; ++h) {
             for (Index i = 0; i < length; ++i) {
               for (Index j = 0; j < length; ++j) d_table(u(i, j), h) += d_b(h, i, j);
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
    const Bar written{nt_write(matrix_bytes, threads), 0.9}, written_for_information{written.pattern};
    const auto naive = [&](const char* name) { return Bar{std::string("naive/") + name + size + "/1", 1}; };
    add_matrix("alibi", threads, {written, naive("alibi")}, maker<AlibiCase>());
    add_matrix("t5", threads, {written, naive("t5")}, maker<T5Case>());
    add_matrix("kerple", threads, {written_for_information}, maker<KerpleCase>());
    add_matrix("sandwich", threads, {written_for_information}, maker<SandwichCase>());
    add_matrix("fire", threads, {written_for_information}, maker<FireCase>());
    add_t5_gradient(threads);
  }
}

}  // namespace bearing::bench
