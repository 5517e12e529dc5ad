#include <gtest/gtest.h>
#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/t5.hpp>
#include <bearing/rows.hpp>
#include <bearing/scores.hpp>

#include "support/terms.hpp"

// Every driver on real threads, for ThreadSanitizer to watch, and for the bits to be those of one thread.

namespace bearing {
namespace {

constexpr Index batch = 2, heads = 4, kv_heads = 2, time = 150, dim = 6;

struct Results {
  std::vector<double> scores, d_q, d_k, values, d_p, rows, turned, d_x, d_params;
  bool operator==(const Results&) const = default;
};

Results run(const Executor& on) {
  test::Params params(test::Params::Shapes{{32, heads}, {9, dim}, {9, dim}, {time, dim}, {1, heads, dim / 2}});
  test::ScoreData data({batch, heads, kv_heads, time, time, dim});
  const auto size = [](Index n) { return static_cast<std::size_t>(n); };
  const Index all_scores = batch * heads * time * time, all_q = batch * heads * time * dim;
  Results r{std::vector<double>(size(all_scores)),
            std::vector<double>(size(all_q)),
            std::vector<double>(size(all_q / 2)),
            std::vector<double>(size(all_q)),
            std::vector<double>(size(all_scores)),
            std::vector<double>(size(batch * time * dim)),
            std::vector<double>(size(all_q)),
            std::vector<double>(size(all_q)),
            {}};
  const auto scores = bhtd(r.scores.data(), batch, heads, time, time);
  const auto like_q = [](std::vector<double>& x) { return bhtd(x.data(), batch, heads, time, dim); };

  const T5Bias<double> t5({.direction = T5Direction::bidirectional}, params.param<double, 2>(0));
  const ShawTerm<double> shaw({.clip = 4}, params.param<double, 2>(1), params.param<double, 2>(2));
  add_scores(with(t5, shaw), data.inputs<double>(0.5), scores, on);
  add_scores_backward(with(t5, shaw), data.inputs<double>(0.5), data.weights<double>(),
                      {like_q(r.d_q), bhtd(r.d_k.data(), batch, kv_heads, time, dim)}, on);
  add_values(with(shaw), {}, {}, data.weights<double>(), like_q(r.values), on);
  add_values_backward(with(shaw), {}, {}, data.weights<double>(), like_q(r.values),
                      bhtd(r.d_p.data(), batch, heads, time, time), on);

  const LearnedInputs<double> learned({.length = time, .dim = dim}, params.param<double, 2>(3));
  fill<double>(learned, {}, dense(r.rows.data(), batch, time, dim), on);
  add_backward<double>(learned, {}, dense<const double>(r.rows.data(), batch, time, dim), on);

  const RopeMixedRows<double> mixed({.head_dim = dim, .axes = 1, .pairing = Pairing::half}, params.param<double, 3>(4));
  turn<double>(mixed, Side::query, {}, like_q(r.values), like_q(r.turned), on);
  turn_backward<double>(mixed, Side::query, {}, like_q(r.values), like_q(r.turned), like_q(r.d_x), on);
  for (std::size_t p = 0; p < params.count(); ++p) {
    r.d_params.insert(r.d_params.end(), params.grads(p).begin(), params.grads(p).end());
  }
  return r;
}

TEST(TermsOnThreads, GiveTheBitsOfOneThread) {
  const Results alone = run({});
  for (const Index workers : {2, 3, 8}) {
    test::Workers threads(workers);
    EXPECT_TRUE(run(threads) == alone) << workers << " threads";
  }
}

}  // namespace
}  // namespace bearing
