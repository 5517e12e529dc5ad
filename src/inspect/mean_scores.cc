#include <bearing/error.hpp>
#include <cmath>
#include <utility>

#include "inspect/dots.hpp"
#include "inspect/probes.hpp"
#include "inspect/tasks.hpp"
#include "text.hpp"

// Scores by distance, the mean over contents. The draws stand side by side: a block of key positions is placed once for
// all of them, and serves the queries of both directions.

namespace bearing::inspect {
namespace {

constexpr Index side_by_side = 16;  // draws
/// Positions of keys in a task: with 16 draws and 8 heads of 64 its rows are half a MiB.
constexpr Index block_keys = 8;

/// Contents of queries and keys, [heads, draws, dim].
struct DrawnHeads {
  Array q, k;
};

DrawnHeads draw(Normal& normal, const SpecimenOptions& o, Index draws, Contents contents) {
  DrawnHeads drawn{Array(o.heads, draws, o.dim), Array(o.heads, draws, o.dim)};
  for (Index i = 0; i < draws; ++i) {
    for (Array* x : {&drawn.q, &drawn.k}) {
      for (Index h = 0; h < o.heads; ++h) {
        for (Index d = 0; d < o.dim; ++d) (*x)(h, i, d) = normal();
      }
    }
  }
  if (contents == Contents::independent) return drawn;
  for (double& value : drawn.q.values) value = std::copysign(1, value);
  drawn.k = drawn.q;
  return drawn;
}

/// The rows of x, [heads, n, dim], `times` over: [heads, times · n, dim].
Array tiled(const Array& x, Index times) {
  Array all(x.shape[0], times * x.shape[1], x.shape[2]);
  const Index head = x.shape[1] * x.shape[2];
  for (Index h = 0; h < x.shape[0]; ++h) {
    for (Index t = 0; t < times; ++t) {
      std::copy_n(x.values.data() + h * head, head, all.values.data() + (h * times + t) * head);
    }
  }
  return all;
}

/// Rows i, i + step, … of every head: [1, heads, count, features]; a step of 0 repeats row i.
View<const double, 4> every(const Array& x, Index i, Index step, Index count) {
  const Index features = x.shape[2];
  return {x.values.data() + i * features,
          {1, x.shape[0], count, features},
          {x.shape[0] * x.shape[1] * features, x.shape[1] * features, step * features, 1}};
}

/// The scores of one query for some keys, [heads, 1, keys].
Array scores_of(const Specimen& specimen, const Tokens& q_at, const Tokens& k_at, View<const double, 4> q,
                View<const double, 4> k) {
  Array scores(q.shape[1], 1, k.shape[2]);
  if (specimen.score_terms) {
    specimen.score_terms(q_at.at(), k_at.at(), q, k, bhtd(scores.values.data(), 1, scores.shape[0], 1, scores.shape[2]),
                         {});
    if (!specimen.input_rows && !specimen.turn_rows) return scores;  // a bias is taken without the contents' product
  }
  const double scale = 1 / std::sqrt(static_cast<double>(specimen.options.dim));
  for (Index h = 0; h < scores.shape[0]; ++h) {
    const View<const double, 1> query{&q(0, h, 0, 0), {q.shape[3]}, {q.stride[3]}};
    const View<const double, 2> keys{&k(0, h, 0, 0), {k.shape[2], k.shape[3]}, {k.stride[2], k.stride[3]}};
    dots(query, keys, [&](Index j, double product) { scores(h, 0, j) += scale * product; });
  }
  return scores;
}

/// Adds up the curves of one example.
class MeanScores {
 public:
  MeanScores(const Specimen& specimen, Index draws, const std::vector<Keys>& towards, const Executor& on)
      : specimen_(specimen), draws_(draws), n_(specimen.line()), towards_(towards), on_(on) {
    for (const Keys keys : towards) {
      q_at_.push_back(specimen.tokens(1, keys == Keys::before ? n_ - 1 : 0));
      means_.emplace_back(1, specimen.options.heads, n_);
    }
  }

  void add(const DrawnHeads& drawn) {
    const bool placed_keys = specimen_.input_rows || specimen_.turn_rows;
    const Index draws = drawn.q.shape[1];
    std::vector<Array> queries;
    for (const Tokens& at : q_at_) {
      queries.push_back(placed(specimen_, Side::query, at.repeated(draws), drawn.q));
    }
    // Where token indices stand for positions, a query must see all keys up to its own.
    const Index block = specimen_.by_index ? n_ : placed_keys ? block_keys : 32 * block_keys;
    each_block(on_, n_, block, [&](Index, Index from, Index count) {
      const Tokens at = specimen_.tokens(count, from);
      Array keys;
      if (placed_keys) keys = placed(specimen_, Side::key, at.repeated(draws), tiled(drawn.k, count));
      for (std::size_t way = 0; way < towards_.size(); ++way) {
        for (Index i = 0; i < draws; ++i) {
          const View<const double, 4> k = placed_keys ? every(keys, i, draws, count) : every(drawn.k, i, 0, count);
          put(way, from, scores_of(specimen_, q_at_[way], at, every(queries[way], i, 1, 1), k));
        }
      }
    });
  }

  std::vector<Array> means() && { return std::move(means_); }

 private:
  void put(std::size_t way, Index from, const Array& scores) {
    for (Index h = 0; h < scores.shape[0]; ++h) {
      for (Index j = 0; j < scores.shape[2]; ++j) {
        const Index distance = towards_[way] == Keys::before ? n_ - 1 - from - j : from + j;
        means_[way](0, h, distance) += scores(h, 0, j) / static_cast<double>(draws_);
      }
    }
  }

  const Specimen& specimen_;
  Index draws_, n_;
  const std::vector<Keys>& towards_;
  const Executor& on_;
  std::vector<Tokens> q_at_;
  std::vector<Array> means_;
};

}  // namespace

std::vector<Array> mean_scores(const Specimen& specimen, Index draws, Contents contents,
                               const std::vector<Keys>& towards, const Executor& on) {
  if (draws < 1) throw RangeError(text::concat("[mean_scores] draws: must be at least 1, got ", draws));
  const SpecimenOptions& o = specimen.options;
  const bool positions_only = specimen.input_rows && !specimen.turn_rows && !specimen.score_terms;
  if (positions_only) draws = 1;  // nothing is drawn
  MeanScores means(specimen, draws, towards, on);
  Normal normal(o.seed);
  for (Index first = 0; first < draws; first += side_by_side) {
    const Index group = std::min(side_by_side, draws - first);
    means.add(positions_only ? DrawnHeads{Array(o.heads, 1, o.dim), Array(o.heads, 1, o.dim)}
                             : draw(normal, o, group, contents));
  }
  return std::move(means).means();
}

Array mean_scores(const Specimen& specimen, Index draws, Contents contents, Keys towards, const Executor& on) {
  return std::move(mean_scores(specimen, draws, contents, std::vector<Keys>{towards}, on).front());
}

}  // namespace bearing::inspect
