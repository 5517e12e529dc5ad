// Vectors by distance that meet queries and keys: Shaw and DeBERTa over whole matrices, forward and backward, against
// plain loops and against what a framework does: the products with all rows of the table, then a gather.

#include <algorithm>
#include <bearing/encodings/deberta.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/scores.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "buffers.hpp"
#include "harness.hpp"
#include "score_models.hpp"

namespace bearing::bench {
namespace {

constexpr Index heads = 8, length = 1024, dim = 64;
constexpr const char* size = "/f32/8x1024x1024x64";
constexpr Shaw shaw_spec{.clip = 16};
constexpr Deberta deberta_spec{.max_relative_positions = 512, .position_buckets = 256};

View<float, 4> matrix(const HugeBuffer& buffer) { return bhtd(buffer.as<float>(), 1, heads, length, length); }

struct QueriesAndKeys {
  Numbers q{heads * length * dim}, k{heads * length * dim};
  ScoreInputs<float> inputs() const {
    return {{}, {}, bhtd(q.value.data(), 1, heads, length, dim), bhtd(k.value.data(), 1, heads, length, dim), 0.125f};
  }
  QueryKeyGrads<float> grads() {
    return {bhtd(q.grad.data(), 1, heads, length, dim), bhtd(k.grad.data(), 1, heads, length, dim)};
  }
};

struct ShawCase : QueriesAndKeys {
  Numbers table{shaw_spec.rows() * dim};
  ShawTerm<float> term{shaw_spec, table.param(shaw_spec.rows(), dim)};
  static constexpr Index rows = 2 * 16 + 1;
  /// Row of the table, as an index array that a framework keeps.
  static Index row(Index i, Index j) { return std::clamp(j - i, -shaw_spec.clip, shaw_spec.clip) + shaw_spec.clip; }
};

struct DebertaCase : QueriesAndKeys {
  Numbers key{heads * 2 * deberta_spec.span() * dim}, query{heads * 2 * deberta_spec.span() * dim};
  DebertaTerm<float> term{deberta_spec, key.param(heads, 2 * deberta_spec.span(), dim),
                          query.param(heads, 2 * deberta_spec.span(), dim)};
  static constexpr Index rows = 2 * 256;
  static Index row(Index i, Index j) {
    return std::clamp<Index>(deberta_bucket(deberta_spec, j - i) + deberta_spec.span(), 0, rows - 1);
  }
};

template <class Made>
std::shared_ptr<const std::vector<std::int32_t>> row_map() {
  const auto map = std::make_shared<std::vector<std::int32_t>>();
  for (Index i = 0; i < length; ++i) {
    for (Index j = 0; j < length; ++j) map->push_back(static_cast<std::int32_t>(Made::row(i, j)));
  }
  return map;
}

template <class Made>
void add_ours(const std::string& name, Index threads) {
  const auto against = [&](const char* how, const char* what) {
    return Bar{std::string(how) + name + what + size + "/1", 1};
  };
  add({.name = "scores/" + name + size,
       .threads = threads,
       .bars = {against("naive/", ""), against("gather/", "")},
       .prepare = [=]() -> std::function<void()> {
         const auto made = std::make_shared<Made>();
         return [=] { add_scores(with(made->term), made->inputs(), matrix(destination()), executor(threads)); };
       }});
  add({.name = "scores_backward/" + name + size, .threads = threads, .prepare = [=]() -> std::function<void()> {
         fill_with_numbers(source(), static_cast<std::size_t>(heads * length * length) * sizeof(float));
         const auto made = std::make_shared<Made>();
         return [=] {
           add_scores_backward(with(made->term), made->inputs(), matrix(source()), made->grads(), executor(threads));
         };
       }});
}

float dot(const float* x, const float* y) {
  float sum = 0;
  for (Index d = 0; d < dim; ++d) sum += x[d] * y[d];
  return sum;
}

void add_naive_shaw() {
  add({.name = std::string("naive/shaw") + size, .prepare = []() -> std::function<void()> {
         const auto made = std::make_shared<ShawCase>();
         const auto rows = row_map<ShawCase>();
         return [=] {
           const View<float, 4> s = matrix(destination());
           for (Index h = 0; h < heads; ++h) {
             for (Index i = 0; i < length; ++i) {
               const float* q = made->q.value.data() + (h * length + i) * dim;
               for (Index j = 0; j < length; ++j) {
                 const Index row = (*rows)[static_cast<std::size_t>(i * length + j)];
                 s(0, h, i, j) += 0.125f * dot(q, made->table.value.data() + row * dim);
               }
             }
           }
         };
       }});
}

void add_naive_deberta() {
  add({.name = std::string("naive/deberta") + size, .prepare = []() -> std::function<void()> {
         const auto made = std::make_shared<DebertaCase>();
         const auto rows = row_map<DebertaCase>();
         return [=] {
           const View<float, 4> s = matrix(destination());
           for (Index h = 0; h < heads; ++h) {
             for (Index i = 0; i < length; ++i) {
               for (Index j = 0; j < length; ++j) {
                 const Index row = h * DebertaCase::rows + (*rows)[static_cast<std::size_t>(i * length + j)];
                 s(0, h, i, j) +=
                     0.125f *
                     (dot(made->q.value.data() + (h * length + i) * dim, made->key.value.data() + row * dim) +
                      dot(made->k.value.data() + (h * length + j) * dim, made->query.value.data() + row * dim));
               }
             }
           }
         };
       }});
}

/// u [length, rows] = x·tableᵀ, the table transposed beforehand so that the inner loop runs along its rows.
void all_products(const float* x, const std::vector<float>& table, Index rows, std::vector<float>& u) {
  for (Index i = 0; i < length; ++i) {
    float* to = u.data() + i * rows;
    std::fill_n(to, rows, 0.0f);
    for (Index d = 0; d < dim; ++d) {
      const float factor = x[i * dim + d];
      const float* from = table.data() + d * rows;
      for (Index r = 0; r < rows; ++r) to[r] += factor * from[r];
    }
  }
}
std::vector<float> transposed(const float* table, Index rows) {
  std::vector<float> t(static_cast<std::size_t>(rows * dim));
  for (Index r = 0; r < rows; ++r) {
    for (Index d = 0; d < dim; ++d) t[static_cast<std::size_t>(d * rows + r)] = table[r * dim + d];
  }
  return t;
}

void add_gather_shaw() {
  add({.name = std::string("gather/shaw") + size, .prepare = []() -> std::function<void()> {
         const auto made = std::make_shared<ShawCase>();
         const auto rows = row_map<ShawCase>();
         const auto u = std::make_shared<std::vector<float>>(static_cast<std::size_t>(length * ShawCase::rows));
         return [=] {
           const View<float, 4> s = matrix(destination());
           const std::vector<float> table = transposed(made->table.value.data(), ShawCase::rows);
           for (Index h = 0; h < heads; ++h) {
             all_products(made->q.value.data() + h * length * dim, table, ShawCase::rows, *u);
             for (Index i = 0; i < length; ++i) {
               const std::int32_t* row = rows->data() + i * length;
               for (Index j = 0; j < length; ++j) {
                 s(0, h, i, j) += 0.125f * (*u)[static_cast<std::size_t>(i * ShawCase::rows + row[j])];
               }
             }
           }
         };
       }});
}

void add_gather_deberta() {
  add({.name = std::string("gather/deberta") + size, .prepare = []() -> std::function<void()> {
         constexpr Index rows_of_table = DebertaCase::rows;
         const auto made = std::make_shared<DebertaCase>();
         const auto rows = row_map<DebertaCase>();
         const auto u = std::make_shared<std::vector<float>>(static_cast<std::size_t>(length * rows_of_table));
         const auto w = std::make_shared<std::vector<float>>(u->size());
         return [=] {
           const View<float, 4> s = matrix(destination());
           for (Index h = 0; h < heads; ++h) {
             const Index table = h * rows_of_table * dim, first = h * length * dim;
             all_products(made->q.value.data() + first, transposed(made->key.value.data() + table, rows_of_table),
                          rows_of_table, *u);
             all_products(made->k.value.data() + first, transposed(made->query.value.data() + table, rows_of_table),
                          rows_of_table, *w);
             for (Index i = 0; i < length; ++i) {
               const std::int32_t* row = rows->data() + i * length;
               for (Index j = 0; j < length; ++j) {
                 s(0, h, i, j) += 0.125f * ((*u)[static_cast<std::size_t>(i * rows_of_table + row[j])] +
                                            (*w)[static_cast<std::size_t>(j * rows_of_table + row[j])]);
               }
             }
           }
         };
       }});
}

}  // namespace

void add_relation_cases() {
  add_naive_shaw();
  add_naive_deberta();
  add_gather_shaw();
  add_gather_deberta();
  for (const Index threads : {1, 2}) {
    add_ours<ShawCase>("shaw", threads);
    add_ours<DebertaCase>("deberta", threads);
  }
}

}  // namespace bearing::bench
