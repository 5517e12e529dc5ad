#include <gtest/gtest.h>
#include <bearing/attention.hpp>
#include <bearing/encodings/dense_bias.hpp>
#include <bearing/encodings/rotary_rows.hpp>
#include <bearing/error.hpp>
#include <bearing/linear_attention.hpp>
#include <bearing/scores.hpp>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/errors.hpp"
#include "support/guarded.hpp"
#include "support/own_terms.hpp"
#include "support/workers.hpp"

namespace bearing {
namespace {

using test::Content;
using test::expect_error;
using test::Guarded;
using test::Layout;
using test::Near;
using test::Strengths;
using test::Suffix;

/// Numbers of up to 150, sums of a few products of them: an error of 2^-53 of some 10^4.
constexpr double score_tolerance = 1e-11;
/// The same, summed over up to 67 · 131 scores.
constexpr double grad_tolerance = 1e-8;

/// Positions in every form that a call may have.
struct Place {
  const char* name;
  Positions q_positions, k_positions;
};

struct Extents {
  Index batch = 2, heads = 4, kv_heads = 2, q_len = 67, k_len = 131, dim = 3;
};

/// Queries, keys, scores and weights in given layouts.
struct Tensors {
  Tensors(const Extents& e, Layout in, Layout out)
      : q({e.batch, e.heads, e.q_len, e.dim}, in),
        k({e.batch, e.kv_heads, e.k_len, e.dim}, in),
        scores({e.batch, e.heads, e.q_len, e.k_len}, out),
        weights({e.batch, e.heads, e.q_len, e.k_len}, in),
        d_q({e.batch, e.heads, e.q_len, e.dim}, out),
        d_k({e.batch, e.kv_heads, e.k_len, e.dim}, out) {
    test::Random random(5);
    for (auto* x : {&q, &k, &scores, &weights, &d_q, &d_k}) x->fill(random);
  }
  Guarded<double> q, k, scores, weights, d_q, d_k;
};

class Forms {
 public:
  explicit Forms(const Extents& e) {
    test::Random random(3);
    for (Index i = 0; i < 2 * e.batch * (e.q_len + e.k_len); ++i) real_.push_back(random.uniform(-20, 20));
    for (Index i = 0; i < 2 * e.batch * (e.q_len + e.k_len); ++i) whole_.push_back(random.integer(-40, 40));
    for (Index b = 0; b < e.batch; ++b) firsts_.push_back(7 * b);
    const Index q = e.q_len, k = e.k_len, batch = e.batch;
    const View<const Index, 1> firsts{firsts_.data(), {batch}, {1}};
    places = {{"counted", Positions(k - q), Positions()},
              {"starting at", Positions::starting_at(firsts), Positions(3)},
              {"whole, shared", Positions(dense<const Index>(whole_.data(), q)), Positions(-4)},
              {"real, each its own", Positions(dense<const double>(real_.data(), batch, q)),
               Positions(dense<const double>(real_.data() + batch * q, batch, k))},
              {"two axes and one", Positions(dense<const double>(real_.data(), 2, batch, q)), Positions(1)},
              {"one axis and two", Positions(5), Positions(dense<const Index>(whole_.data(), 2, batch, k))},
              {"backwards", Positions(View<const Index, 2>{whole_.data() + q - 1, {batch, q}, {0, -1}}), Positions()}};
  }
  std::vector<Place> places;

 private:
  std::vector<double> real_;
  std::vector<Index> whole_, firsts_;
};

double at(const Positions& positions, Index axis, Index b, Index t) {
  return positions.real(std::min(axis, positions.axes() - 1), b, t);
}

double product(const Tensors& x, const Extents& e, Index b, Index h, Index i, Index j) {
  double sum = 0;
  for (Index d = 0; d < e.dim; ++d) {
    sum += x.q.view()(b, h, i, d) * x.k.view()(b, h / (e.heads / e.kv_heads), j, d);
  }
  return sum;
}

template <class Body>
void over(const Extents& e, const Body& body) {
  for (Index b = 0; b < e.batch; ++b) {
    for (Index h = 0; h < e.heads; ++h) {
      for (Index i = 0; i < e.q_len; ++i) {
        for (Index j = 0; j < e.k_len; ++j) body(b, h, i, j);
      }
    }
  }
}

void expect_near_all(const std::vector<double>& got, const std::vector<double>& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], tolerance) << "element " << i;
}

const Extents few{.batch = 2, .heads = 2, .kv_heads = 1, .q_len = 5, .k_len = 7, .dim = 3};

TEST(AddScores, TermsOfAllKindsAddUpForAnyPositionsLayoutsAndExecutor) {
  for (const Extents& e : {Extents{}, few}) {
    const Near near{Strengths(e.heads)};
    const Content content{Strengths(e.heads)};
    const Suffix suffix;
    test::Workers three(3);
    const std::vector<Executor> executors{{}, three, test::backwards(4)};
    Forms forms(e);
    std::size_t turn = 0;
    for (const Place& place : forms.places) {
      for (const Layout layout : test::writable_layouts) {
        SCOPED_TRACE(std::string(place.name) + ", " + test::name(layout));
        if (e.q_len > 5 && turn++ % 5 != 0) continue;  // the large ones are slow to say in a line
        Tensors x(e, layout == Layout::padded ? Layout::one_head : layout, layout);
        std::vector<double> wanted;
        over(e, [&](Index b, Index h, Index i, Index j) {
          const double distance = at(place.k_positions, 0, b, j) - at(place.q_positions, 0, b, i);
          const double across = at(place.k_positions, 1, b, j) - at(place.q_positions, 1, b, i) + 1;
          double sum = 0;
          for (Index t = j; t < e.k_len; ++t) sum += at(place.k_positions, 0, b, t);
          wanted.push_back(x.scores.view()(b, h, i, j) + near.c[h] * Near::shape(distance) +
                           content.c[h] * 0.5 * product(x, e, b, h, i, j) * across + sum);
        });
        const std::vector<double> before = x.scores.values();
        const ScoreInputs<double> in{place.q_positions, place.k_positions, x.q.read(), x.k.read(), 0.5};
        for (const Executor& on : executors) {
          std::size_t n = 0;
          x.scores.for_each([&](Index b, Index h, Index i, Index j) { x.scores.view()(b, h, i, j) = before[n++]; });
          add_scores(with(near, content, suffix), in, x.scores.view(), on);
          expect_near_all(x.scores.values(), wanted,
                          score_tolerance * std::max<double>(1, static_cast<double>(e.k_len)));
          EXPECT_TRUE(x.scores.guards_intact());
        }
      }
    }
  }
}

TEST(AddScores, BackwardAddsEveryGradientForAnyPositionsLayoutsAndExecutor) {
  for (const Extents& e : {Extents{}, few}) {
    const Near near{Strengths(e.heads)};
    const Content content{Strengths(e.heads)};
    const Suffix suffix;
    test::Workers three(3);
    Forms forms(e);
    std::size_t turn = 0;
    for (const Place& place : forms.places) {
      for (const Layout layout : test::writable_layouts) {
        SCOPED_TRACE(std::string(place.name) + ", " + test::name(layout));
        if (e.q_len > 5 && turn++ % 5 != 0) continue;
        Tensors x(e, layout == Layout::padded ? Layout::one_head : layout, layout);
        Guarded<double> d_q(x.q.view().shape, Layout::bhtd), d_k(x.k.view().shape, Layout::bhtd);
        d_q.copy(x.d_q.read()), d_k.copy(x.d_k.read());
        std::vector<double> d_near(static_cast<std::size_t>(e.heads)), d_content(d_near);
        over(e, [&](Index b, Index h, Index i, Index j) {
          const double weight = x.weights.view()(b, h, i, j);
          const double across = at(place.k_positions, 1, b, j) - at(place.q_positions, 1, b, i) + 1;
          const Index kv = h / (e.heads / e.kv_heads);
          d_near[static_cast<std::size_t>(h)] +=
              weight * Near::shape(at(place.k_positions, 0, b, j) - at(place.q_positions, 0, b, i));
          d_content[static_cast<std::size_t>(h)] += weight * 0.5 * product(x, e, b, h, i, j) * across;
          for (Index d = 0; d < e.dim; ++d) {
            d_q.view()(b, h, i, d) += weight * 0.5 * content.c[h] * across * x.k.view()(b, kv, j, d);
            d_k.view()(b, kv, j, d) += weight * 0.5 * content.c[h] * across * x.q.view()(b, h, i, d);
          }
        });
        for (const Term<double>& term : with(near, content)) EXPECT_EQ(term.param_size, 1);
        std::fill(near.c.grad.begin(), near.c.grad.end(), 0.0);
        std::fill(content.c.grad.begin(), content.c.grad.end(), 0.0);
        const ScoreInputs<double> in{place.q_positions, place.k_positions, x.q.read(), x.k.read(), 0.5};
        add_scores_backward(with(near, content, suffix), in, x.weights.read(), {x.d_q.view(), x.d_k.view()},
                            turn % 2 == 0 ? Executor(three) : test::backwards(4));
        expect_near_all(x.d_q.values(), d_q.values(), grad_tolerance);
        expect_near_all(x.d_k.values(), d_k.values(), grad_tolerance);
        expect_near_all(near.c.grad, d_near, grad_tolerance);
        expect_near_all(content.c.grad, d_content, grad_tolerance);
        EXPECT_TRUE(x.d_q.guards_intact() && x.d_k.guards_intact());

        // The same again adds the same again.
        add_scores_backward(with(near), in, x.weights.read());
        for (double& d : d_near) d *= 2;
        expect_near_all(near.c.grad, d_near, grad_tolerance);
      }
    }
  }
}

TEST(AddScores, AListOfNothingAddsNothingAndIsAMatrixOfZeros) {
  Tensors x(few, Layout::bhtd, Layout::bhtd);
  const std::vector<double> before = x.scores.values();
  add_scores(TermList<double>{}, {}, x.scores.view());
  add_scores_backward(TermList<double>{}, {}, x.weights.read());
  EXPECT_EQ(x.scores.values(), before);
  std::vector<float> bias(2 * 5 * 7, 3.0f);
  bias_matrix(TermList<float>{}, {}, {}, dense(bias.data(), 2, 5, 7));
  EXPECT_EQ(bias, std::vector<float>(bias.size()));
}

TEST(AddScores, AnEncodingThatTurnsRowsIsRefusedWithAndWithoutQueries) {
  const Near near{Strengths(4)};
  const RopeTable<double> table(Rope{.head_dim = 4, .pairing = Pairing::half}, 8);
  const RotaryRows<double> rope(table);
  std::vector<double> rows(4 * 7 * 4, 1.0), s(4 * 7 * 7, 3.0), d(rows);
  const auto x = bhtd<const double>(rows.data(), 1, 4, 7, 4);
  const auto scores = dense(s.data(), 1, 4, 7, 7);
  const auto text = [](const std::string& function, const char* number) {
    return "[" + function +
           "] terms: must add to scores, as q and k are turned (rotate, turn) before they are multiplied, " +
           "got one that turns them as number " + number;
  };
  expect_error<ShapeError>([&] { add_scores(with(near, rope), {{}, {}, x, x}, scores); }, text("add_scores", "2 of 2"));
  expect_error<ShapeError>([&] { add_scores(with(rope), {}, scores); }, text("add_scores", "1 of 1"));
  expect_error<ShapeError>(
      [&] {
        add_scores_backward(with(rope, near), {{}, {}, x, x}, scores);
      },
      text("add_scores_backward", "1 of 2"));
  expect_error<ShapeError>([&] { bias_matrix(with(rope), {}, {}, dense(s.data(), 4, 7, 7)); },
                           text("bias_matrix", "1 of 1"));
  EXPECT_EQ(s, std::vector<double>(s.size(), 3.0));
}

TEST(TermList, IsMadeWhileAProgramRunsAndHoldsEight) {
  const Near near{Strengths(4)};
  TermList<double> list;
  for (Index n = 0; n < TermList<double>::most; ++n) list.add(near);
  std::vector<double> s(4 * 3 * 5), one(s);
  add_scores(list, {}, dense(s.data(), 1, 4, 3, 5));
  add_scores(with(near, near, near, near, near, near, near, near), {}, dense(one.data(), 1, 4, 3, 5));
  EXPECT_EQ(s, one);
  expect_error<ShapeError>([&] { list.add(near); }, "[TermList::add] terms: must be at most 8, got one more");
  EXPECT_EQ(list.size, 8);
}

template <class E>
concept Addable = requires(TermList<double>& list, E&& encoding) {
  list.add(std::forward<E>(encoding));
};
static_assert(Addable<const Near&> && Addable<Near&> && !Addable<Near>, "a temporary would not outlive the call");

TEST(TermList, ASizeThatItCannotHoldIsRefusedEverywhere) {
  std::vector<double> x(2 * 3 * 4, 1.0), y(x), lse(6);
  const auto in = bhtd(x.data(), 1, 2, 3, 4), out = bhtd(y.data(), 1, 2, 3, 4);
  const auto square = dense(y.data(), 1, 2, 3, 3);
  const View<const double, 4> p = dense<const double>(x.data(), 1, 2, 3, 3);
  for (const Index size : {Index{9}, Index{-1}}) {
    TermList<double> terms;
    terms.size = size;
    const auto refused = [&](const std::string& function, const std::function<void()>& call) {
      expect_error<ShapeError>(call,
                               "[" + function + "] terms: must be from 0 to 8, got a size of " + std::to_string(size));
    };
    refused("add_scores", [&] { add_scores(terms, {}, square); });
    refused("add_scores_backward", [&] { add_scores_backward(terms, {}, p); });
    refused("bias_matrix", [&] { bias_matrix(terms, {}, {}, dense(y.data(), 2, 3, 3)); });
    refused("add_values", [&] { add_values(terms, {}, {}, p, out); });
    refused("add_values_backward", [&] { add_values_backward(terms, {}, {}, p, in); });
    refused("attention", [&] { attention<double>({in, in, in}, out, {}, terms, {.mask = Mask::none}); });
    refused("attention_backward", [&] {
      attention_backward<double>({in, in, in}, {in, dense(lse.data(), 1, 2, 3), in}, {out, {}, {}}, terms,
                                 {.mask = Mask::none});
    });
    refused("linear_attention", [&] { linear_attention<double>({in, in, in}, out, {}, terms, {.mask = Mask::none}); });
    EXPECT_THROW(terms.add(Term<double>{}), ShapeError);
  }
  EXPECT_EQ(y, std::vector<double>(y.size(), 1.0));
}

TEST(AddScores, MemoryThatIsNotAlignedIsRefused) {
  alignas(8) std::byte bytes[8 * 13]{};
  auto* data = reinterpret_cast<double*>(bytes + 4);
  std::vector<double> s(12);
  expect_error<ShapeError>([&] { add_scores(TermList<double>{}, {}, dense(data, 1, 2, 2, 3)); },
                           "[add_scores] scores: must begin at a multiple of 8 bytes, got an address 4 past one");
  expect_error<ShapeError>(
      [&] {
        add_scores(TermList<double>{}, {Positions(dense<const double>(data, 2)), {}}, dense(s.data(), 1, 2, 2, 3));
      },
      "[add_scores] q_positions: must begin at a multiple of 8 bytes, got an address 4 past one");
  const DenseBias<double> bias({dense<const double>(data, 1, 2, 2, 3)});
  expect_error<ShapeError>([&] { add_scores(with(bias), {}, dense(s.data(), 1, 2, 2, 3)); },
                           "[add_scores] DenseBias: must begin at a multiple of 8 bytes, got an address 4 past one");
}

TEST(AddScores, EmptyExtentsAreServed) {
  const Near near{Strengths(4)};
  const Suffix suffix;
  for (const Extents& e : {Extents{.batch = 0}, Extents{.heads = 0, .kv_heads = 0}, Extents{.q_len = 0},
                           Extents{.k_len = 0}, Extents{.q_len = 0, .k_len = 0}}) {
    const ScoreInputs<double> in{{},
                                 {},
                                 bhtd<const double>(nullptr, e.batch, e.heads, e.q_len, 0),
                                 bhtd<const double>(nullptr, e.batch, e.kv_heads, e.k_len, 0)};
    add_scores(with(near, suffix), in, bhtd<double>(nullptr, e.batch, e.heads, e.q_len, e.k_len));
    add_scores_backward(with(near, suffix), in, bhtd<const double>(nullptr, e.batch, e.heads, e.q_len, e.k_len));
    if (e.batch > 0) bias_matrix(with(near, suffix), {}, {}, dense<double>(nullptr, e.heads, e.q_len, e.k_len));
  }
  // A query without keys, in memory that an empty vector has: queries there, keys none.
  std::vector<double> q(12), none;
  const ScoreInputs<double> in{
      {}, {}, bhtd<const double>(q.data(), 1, 4, 1, 3), bhtd<const double>(none.data(), 1, 4, 0, 3)};
  add_scores(with(near), in, bhtd<double>(nullptr, 1, 4, 1, 0));
}

TEST(BiasMatrix, EveryLayoutAndTypeHoldsTheTermsSum) {
  const Extents e{.batch = 1, .heads = 3, .kv_heads = 3, .q_len = 67, .k_len = 131, .dim = 0};
  const Near near{Strengths(e.heads)};
  const Suffix suffix;
  Forms forms(e);
  for (const Place& place : forms.places) {
    for (const Layout layout : test::writable_layouts) {
      SCOPED_TRACE(std::string(place.name) + ", " + test::name(layout));
      Guarded<double> bias({1, e.heads, e.q_len, e.k_len}, layout);
      const View<double, 4> v = bias.view();
      const View<double, 3> matrix{v.data, {e.heads, e.q_len, e.k_len}, {v.stride[1], v.stride[2], v.stride[3]}};
      bias_matrix(with(near), place.q_positions, place.k_positions, matrix, test::backwards(2));
      for (Index h = 0; h < e.heads; ++h) {
        for (Index i = 0; i < e.q_len; ++i) {
          for (Index j = 0; j < e.k_len; ++j) {
            ASSERT_NEAR(matrix(h, i, j),
                        near.c[h] * Near::shape(at(place.k_positions, 0, 0, j) - at(place.q_positions, 0, 0, i)),
                        score_tolerance);
          }
        }
      }
      EXPECT_TRUE(bias.guards_intact());
      const std::vector<double> alone = bias.values();
      bias_matrix(with(suffix), place.q_positions, place.k_positions, matrix);
      std::vector<double> sum = bias.values();
      for (std::size_t n = 0; n < sum.size(); ++n) sum[n] += alone[n];
      bias_matrix(with(near, suffix), place.q_positions, place.k_positions, matrix);
      expect_near_all(bias.values(), sum, 131 * score_tolerance);
      bias_matrix(with(suffix, near), place.q_positions, place.k_positions, matrix);
      expect_near_all(bias.values(), sum, 131 * score_tolerance);
    }
  }
}

/// Wrong calls: each changes one thing of a right one.
struct Call {
  std::vector<double> memory = std::vector<double>(1000, 2.0);
  View<double, 4> scores = bhtd(memory.data(), 1, 2, 3, 4);
  View<const double, 4> q = bhtd<const double>(memory.data() + 100, 1, 2, 3, 5);
  View<const double, 4> k = bhtd<const double>(memory.data() + 200, 1, 1, 4, 5);
  View<double, 4> d_q = bhtd(memory.data() + 300, 1, 2, 3, 5);
  View<double, 4> d_k = bhtd(memory.data() + 400, 1, 1, 4, 5);
  Positions q_positions = {}, k_positions = {};
  Content content{Strengths(2)};

  void forward() { add_scores(with(content), {q_positions, k_positions, q, k}, scores); }
  void backward() { add_scores_backward(with(content), {q_positions, k_positions, q, k}, scores, {d_q, d_k}); }
};

template <class Change>
void expect_refused(void (Call::*run)(), const Change& change, const std::string& text) {
  Call call;
  change(call);
  const std::vector<double> before = call.memory;
  expect_error<ShapeError>([&] { (call.*run)(); }, text);
  EXPECT_EQ(call.memory, before) << text;
  EXPECT_EQ(call.content.c.grad, std::vector<double>(2)) << text;
}

TEST(AddScores, WrongTensorsAreRefusedBeforeAnythingIsWritten) {
  const auto wrong = [](const auto& change, const char* text) { expect_refused(&Call::forward, change, text); };
  wrong([](Call& c) { c.scores.shape[0] = -1; },
        "[add_scores] scores: must have extents of at least 0, got shape [-1, 2, 3, 4]");
  wrong([](Call& c) { c.scores.data = nullptr; },
        "[add_scores] scores: must have memory, got a null pointer; shape is [1, 2, 3, 4]");
  wrong(
      [](Call& c) {
        c.scores.shape = {Index{1} << 40, Index{1} << 40, 3, 4};
      },
      "[add_scores] scores: must span at most 2^60 bytes, got shape [1099511627776, 1099511627776, 3, 4]");
  wrong([](Call& c) { c.scores.stride[1] = 0; },
        "[add_scores] scores: no two elements may share memory, got strides [24, 0, 4, 1] for shape [1, 2, 3, 4]");
  wrong([](Call& c) { c.scores.stride[3] = 0; },
        "[add_scores] scores: no two elements may share memory, got strides [24, 12, 4, 0] for shape [1, 2, 3, 4]");
  wrong([](Call& c) { c.scores.data = c.memory.data() + 200; },
        "[add_scores] scores: must share no memory with k, got tensors that overlap");
  wrong([](Call& c) { c.k = {}; }, "[add_scores] q, k: must both be given, or neither, got one of them");
  wrong([](Call& c) { c.q.data = nullptr; },
        "[add_scores] q: must have memory, got a null pointer; shape is [1, 2, 3, 5]");
  wrong([](Call& c) { c.k.data = nullptr; },
        "[add_scores] k: must have memory, got a null pointer; shape is [1, 1, 4, 5]");
  wrong([](Call& c) { c.q.shape[3] = 4; },
        "[add_scores] k: must be [batch, kv_heads, k_len, dim] of scores with shape [1, 2, 3, 4] and queries with "
        "shape [1, 2, 3, 4], kv_heads a divisor of heads, got [1, 1, 4, 5]");
  wrong([](Call& c) { c.k.shape[1] = 0; },
        "[add_scores] k: must be [batch, kv_heads, k_len, dim] of scores with shape [1, 2, 3, 4] and queries with "
        "shape [1, 2, 3, 5], kv_heads a divisor of heads, got [1, 0, 4, 5]");
  wrong([](Call& c) { c.q.shape[1] = 1; },
        "[add_scores] q: must be [batch, heads, q_len, dim] of scores with shape [1, 2, 3, 4], got [1, 1, 3, 5]");
}

TEST(AddScores, WrongPositionsAreRefusedBeforeAnythingIsWritten) {
  const auto wrong = [](const auto& change, const char* text) { expect_refused(&Call::forward, change, text); };
  static const double zeros[40] = {};
  wrong([](Call& c) { c.q_positions = Positions(dense(zeros, 0, 1, 3)); },
        "[add_scores] q_positions: must have 1 to 4 axes, got 0");
  wrong([](Call& c) { c.k_positions = Positions(dense(zeros, 5, 1, 4)); },
        "[add_scores] k_positions: must have 1 to 4 axes, got 5");
  wrong([](Call& c) { c.k_positions = Positions(dense(zeros, 3)); },
        "[add_scores] k_positions: must have 4 tokens, got 3");
  wrong([](Call& c) { c.q_positions = Positions(dense(zeros, 2, 3)); },
        "[add_scores] q_positions: must have 1 sequence, got 2");
}

TEST(AddScores, WrongGradientsAreRefusedBeforeAnythingIsWritten) {
  const auto wrong = [](const auto& change, const char* text) { expect_refused(&Call::backward, change, text); };
  wrong([](Call& c) { c.scores.shape[2] = -3; },
        "[add_scores_backward] d_scores: must have extents of at least 0, got shape [1, 2, -3, 4]");
  wrong([](Call& c) { c.d_q.shape[3] = 4; },
        "[add_scores_backward] d_q: must have the shape of q, [1, 2, 3, 5], got [1, 2, 3, 4]");
  wrong([](Call& c) { c.d_k.stride[2] = 0; },
        "[add_scores_backward] d_k: no two elements may share memory, got strides [20, 20, 0, 1] for shape [1, 1, 4, "
        "5]");
  wrong([](Call& c) { c.d_k.data = c.d_q.data; },
        "[add_scores_backward] d_k: must share no memory with d_q, got tensors that overlap");
  wrong([](Call& c) { c.d_q.data = c.memory.data() + 100; },
        "[add_scores_backward] d_q: must share no memory with q, got tensors that overlap");
  wrong([](Call& c) { c.d_k.data = c.memory.data(); },
        "[add_scores_backward] d_k: must share no memory with d_scores, got tensors that overlap");
}

TEST(AddScores, GradientsMayLieBetweenEachOtherAsInOneArrayOfAll) {
  const Extents e{.batch = 1, .heads = 2, .kv_heads = 2, .q_len = 4, .k_len = 4, .dim = 3};
  Tensors x(e, Layout::bhtd, Layout::bhtd);
  const Content content{Strengths(2)};
  const ScoreInputs<double> in{{}, {}, x.q.read(), x.k.read()};
  std::vector<double> packed(4 * 2 * 2 * 3);  // [time, q or k, heads, dim]
  const View<double, 4> d_q{packed.data(), x.q.view().shape, {48, 3, 12, 1}};
  const View<double, 4> d_k{packed.data() + 6, x.k.view().shape, {48, 3, 12, 1}};
  add_scores_backward(with(content), in, x.weights.read(), {d_q, d_k});
  std::vector<double> apart(48);
  const View<double, 4> a = bhtd(apart.data(), 1, 2, 4, 3), b = bhtd(apart.data() + 24, 1, 2, 4, 3);
  add_scores_backward(with(content), in, x.weights.read(), {a, b});
  x.q.for_each([&](Index i, Index h, Index t, Index d) {
    EXPECT_EQ(d_q(i, h, t, d), a(i, h, t, d));
    EXPECT_EQ(d_k(i, h, t, d), b(i, h, t, d));
  });
}

TEST(BiasMatrix, WrongMatricesAreRefused) {
  const Near near{Strengths(2)};
  std::vector<double> m(24, 7.0);
  const auto wrong = [&](View<double, 3> bias, const char* text) {
    expect_error<ShapeError>([&] { bias_matrix(with(near), {}, {}, bias); }, text);
    EXPECT_EQ(m, std::vector<double>(24, 7.0));
  };
  wrong(dense<double>(nullptr, 2, 3, 4),
        "[bias_matrix] bias: must have memory, got a null pointer; shape is [2, 3, 4]");
  wrong(dense(m.data(), 2, -3, -4), "[bias_matrix] bias: must have extents of at least 0, got shape [2, -3, -4]");
  wrong({m.data(), {2, 3, 4}, {0, 4, 1}},
        "[bias_matrix] bias: no two elements may share memory, got strides [0, 4, 1] for shape [2, 3, 4]");
}

/// A term with more gradients than memory could ever hold.
struct Endless {
  using Arithmetic = double;
  void add_scores(const Tile<double>&, double*) const {}
  void add_score_grads(const Tile<double>&, const double*, const TileGrads<double>&) const {}
  Index param_size() const { return Index{1} << 62; }
  void collect(Index, Index, const double*) const {}
};

TEST(AddScores, GradientsBeyondCountingAreABadAlloc) {
  const Endless endless;
  const double d[4] = {};
  EXPECT_THROW(add_scores_backward(with(endless), {}, bhtd(d, 1, 4, 1, 1)), std::bad_alloc);
}

}  // namespace
}  // namespace bearing
