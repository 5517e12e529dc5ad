// Vectors by distance that meet queries, and queries and keys, over whole matrices, forward and backward, against
// plain loops and against what a framework does: the products with all rows of the table, then a gather.

#include <algorithm>
#include <bearing/scores.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "buffers.hpp"
#include "described.hpp"
#include "harness.hpp"
#include "score_models.hpp"

namespace bearing::bench {
namespace {

constexpr Index heads = 8, length = 1024, dim = 64;
constexpr float scale = 0.125f;
constexpr const char* size = "/f32/8x1024x1024x64";
constexpr Sizes sizes{
    .batch = 1, .heads = heads, .kv_heads = heads, .q_len = length, .k_len = length, .dim = dim, .value_dim = dim};

View<float, 4> matrix(const HugeBuffer& buffer) { return bhtd(buffer.as<float>(), 1, heads, length, length); }

View<const float, 4> rows_of(const std::vector<float>& x) { return bhtd(x.data(), 1, heads, length, dim); }

/// An encoding with queries and keys.
struct RelationCase {
  explicit RelationCase(const std::string& name) : encoding(name, sizes) {}

  ScoreInputs<float> inputs() const { return {{}, {}, rows_of(q.value), rows_of(k.value), scale}; }
  QueryKeyGrads<float> grads() {
    return {bhtd(q.grad.data(), 1, heads, length, dim), bhtd(k.grad.data(), 1, heads, length, dim)};
  }

  Described encoding;
  Numbers q{heads * length * dim}, k{heads * length * dim};
};

/// A table whose rows meet queries or keys, and which row each pair of tokens has, as an index array that a framework
/// keeps.
struct MetTable {
  const float* value = nullptr;
  Index rows = 0;
  bool has_heads = false, meets_keys = false;
  std::vector<std::int32_t> row = {};

  const float* of_head(Index h) const { return value + (has_heads ? h * rows * dim : 0); }
};

/// Which row of parameter p each pair has, told by the scores of rows that begin with their number; none if that
/// parameter does not meet queries, or keys.
std::vector<std::int32_t> rows_of_pairs(const std::string& name, std::size_t p, bool keys) {
  RelationCase probe(name);
  for (auto& parameter : probe.encoding.parameters()) std::fill(parameter.value.begin(), parameter.value.end(), 0.0f);
  Described::Parameter& table = probe.encoding.parameters()[p];
  const Index rows = table.shape[table.shape.size() - 2];
  for (std::size_t n = 0; n < table.value.size(); n += static_cast<std::size_t>(dim)) {
    table.value[n] = static_cast<float>(static_cast<Index>(n) / dim % rows);
  }
  const auto first = [](Numbers& numbers, float number) {
    std::fill(numbers.value.begin(), numbers.value.end(), 0.0f);
    for (std::size_t n = 0; n < numbers.value.size(); n += static_cast<std::size_t>(dim)) numbers.value[n] = number;
  };
  first(probe.q, keys ? 0 : 1), first(probe.k, keys ? 1 : 0);
  ScoreInputs<float> in = probe.inputs();
  in.scale = 1;
  std::vector<float> scores(static_cast<std::size_t>(heads * length * length));
  add_scores(probe.encoding.terms(), in, bhtd(scores.data(), 1, heads, length, length));
  scores.resize(static_cast<std::size_t>(length * length));
  if (std::all_of(scores.begin(), scores.end(), [](float x) { return x == 0; })) return {};
  return {scores.begin(), scores.end()};
}

std::vector<MetTable> met_tables(const std::string& name, const Described& encoding) {
  std::vector<MetTable> met;
  for (std::size_t p = 0; p < encoding.parameters().size(); ++p) {
    const Described::Parameter& one = encoding.parameters()[p];
    const std::size_t axes = one.shape.size();
    MetTable table{one.value.data(), one.shape[axes - 2], axes == 3 && one.shape[0] > 1};
    for (const bool keys : {false, true}) {
      table.meets_keys = keys, table.row = rows_of_pairs(name, p, keys);
      if (!table.row.empty()) met.push_back(table);
    }
  }
  return met;
}

void add_ours(const std::string& name, Index threads) {
  const std::string home = home_of(name);
  std::vector<Bar> bars;  // loops have one thread
  if (threads == 1) bars = {{"naive/" + home + size + "/1"}, {"gather/" + home + size + "/1"}};
  add({.name = "scores/" + home + size, .threads = threads, .bars = bars, .prepare = [=]() -> std::function<void()> {
         const auto made = std::make_shared<RelationCase>(name);
         return [=] { add_scores(made->encoding.terms(), made->inputs(), matrix(destination()), executor(threads)); };
       }});
  add({.name = "scores_backward/" + home + size, .threads = threads, .prepare = [=]() -> std::function<void()> {
         fill_with_numbers(source(), static_cast<std::size_t>(heads * length * length) * sizeof(float));
         const auto made = std::make_shared<RelationCase>(name);
         return [=] {
           add_scores_backward(made->encoding.terms(), made->inputs(), matrix(source()), made->grads(),
                               executor(threads));
         };
       }});
}

float dot(const float* x, const float* y) {
  float sum = 0;
  for (Index d = 0; d < dim; ++d) sum += x[d] * y[d];
  return sum;
}

void add_naive(const std::string& name) {
  add({.name = "naive/" + home_of(name) + size, .alone = false, .prepare = [=]() -> std::function<void()> {
         const auto made = std::make_shared<const RelationCase>(name);
         const auto tables = std::make_shared<const std::vector<MetTable>>(met_tables(name, made->encoding));
         return [=] {
           const View<float, 4> s = matrix(destination());
           for (const MetTable& table : *tables) {
             const float* x = table.meets_keys ? made->k.value.data() : made->q.value.data();
             for (Index h = 0; h < heads; ++h) {
               for (Index i = 0; i < length; ++i) {
                 for (Index j = 0; j < length; ++j) {
                   const Index row = table.row[static_cast<std::size_t>(i * length + j)];
                   const Index token = h * length + (table.meets_keys ? j : i);
                   s(0, h, i, j) += scale * dot(x + token * dim, table.of_head(h) + row * dim);
                 }
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

void add_gather(const std::string& name) {
  add({.name = "gather/" + home_of(name) + size, .alone = false, .prepare = [=]() -> std::function<void()> {
         const auto made = std::make_shared<const RelationCase>(name);
         const auto tables = std::make_shared<const std::vector<MetTable>>(met_tables(name, made->encoding));
         const auto u = std::make_shared<std::vector<float>>();
         return [=] {
           const View<float, 4> s = matrix(destination());
           for (const MetTable& table : *tables) {
             const float* x = table.meets_keys ? made->k.value.data() : made->q.value.data();
             u->resize(static_cast<std::size_t>(length * table.rows));
             for (Index h = 0; h < heads; ++h) {
               all_products(x + h * length * dim, transposed(table.of_head(h), table.rows), table.rows, *u);
               for (Index i = 0; i < length; ++i) {
                 const std::int32_t* row = table.row.data() + i * length;
                 for (Index j = 0; j < length; ++j) {
                   const Index token = table.meets_keys ? j : i;
                   s(0, h, i, j) += scale * (*u)[static_cast<std::size_t>(token * table.rows + row[j])];
                 }
               }
             }
           }
         };
       }});
}

}  // namespace

void add_relation_cases() {
  for (const char* name : {"shaw", "deberta v3"}) {
    add_naive(name);
    add_gather(name);
    for (const Index threads : {1, 2}) add_ours(name, threads);
  }
}

}  // namespace bearing::bench
