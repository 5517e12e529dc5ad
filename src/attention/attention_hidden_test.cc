#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/executor.hpp>

#include "support/attention.hpp"
#include "support/attention_encodings.hpp"
#include "support/workers.hpp"

// What nobody sees may hold anything: keys and values that no query sees, queries that see no key. Every way to hide
// them, every encoding, forward and every gradient: the same bits whatever lies there.

namespace bearing {
namespace {

using test::AttentionCase;
using test::AttentionData;
using test::AttentionGot;
using test::from_double;
using test::in_double;
using test::NamedEncoding;
using test::NamedEncodings;
using test::Params;
using test::same_bits;
using test::Serves;
using test::to_double;

/// Masks of a case, by what they hide.
class Hiding {
 public:
  Hiding(Index batch, Index heads, Index q_len, Index k_len)
      : key_mask_(std::make_unique<bool[]>(size(batch * k_len))),
        visible_(std::make_unique<bool[]>(size(batch * heads * q_len * k_len))) {
    lengths_ = {k_len - 6, k_len - 3};
    // Keys at both ends and two in the middle are hidden; `visible` lets nobody see key 5 and leaves query 3 nothing.
    for (Index j = 0; j < batch * k_len; ++j) {
      const Index at = j % k_len;
      key_mask_[size(j)] = at > 1 && at < k_len - 4 && at != k_len / 2 && at != k_len / 2 + 3;
    }
    test::Random random(17);
    for (Index x = 0; x < batch * heads * q_len * k_len; ++x) {
      const Index j = x % k_len, i = x / k_len % q_len;
      visible_[size(x)] = i != 3 && j != 5 && j != k_len - 2 && random.integer(0, 3) > 0;
    }
    // The second of three packed sequences has keys and no queries, the last one queries and no keys.
    q_starts_ = {0, q_len / 2, q_len / 2, q_len - 2, q_len}, k_starts_ = {0, k_len / 3, k_len / 2, k_len, k_len};
    for (Index i = 0; i < q_len; ++i) q_far_.push_back(i < q_len / 2 ? i : k_len + i - q_len);
  }

  /// body(way, case) for each way to hide something that an encoding serves.
  template <class Body>
  void each(const AttentionCase& plain, Serves serves, const Body& body) const {
    const auto with = [&](const char* way, const auto& change) {
      AttentionCase c = plain;
      change(c);
      body(way, c);
    };
    with("k_lengths", [&](AttentionCase& c) { c.options.k_lengths = dense(lengths_.data(), c.batch); });
    with("key_mask",
         [&](AttentionCase& c) { c.options.key_mask = dense<const bool>(key_mask_.get(), c.batch, c.k_len); });
    with("visible", [&](AttentionCase& c) {
      c.options.visible = dense<const bool>(visible_.get(), c.batch, c.heads, c.q_len, c.k_len);
      c.options.sinks.value = dense(sinks_, c.heads);
    });
    with("packed", [&](AttentionCase& c) {
      c.options.q_starts = dense(q_starts_.data(), 5), c.options.k_starts = dense(k_starts_.data(), 5);
    });
    with("a tail of a mask by index", [&](AttentionCase& c) { c.options.mask = Mask::causal_top_left; });
    if (serves == Serves::grid || serves == Serves::three_axes) return;
    with("a causal tail", [&](AttentionCase& c) { c.options.mask = Mask::causal, c.q_first = c.k_len - c.q_len - 5; });
    with("a window between tokens that are far apart", [&](AttentionCase& c) {
      c.options.mask = Mask::causal, c.options.window.before = 3;
      c.q_positions = Positions(dense(q_far_.data(), c.q_len));
    });
    if (serves == Serves::rising) return;
    with("queries before all keys",
         [&](AttentionCase& c) { c.options.mask = Mask::causal, c.q_first = 0, c.k_first = 4; });
  }

 private:
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  static constexpr double sinks_[] = {0.5, -0.25, 0, 1};
  std::vector<Index> lengths_, q_starts_, k_starts_, q_far_;
  std::unique_ptr<bool[]> key_mask_, visible_;
};

/// Writes a number wherever nobody looks; returns how many rows that were.
template <class T>
Index poison(AttentionData<T>& data, T number) {
  const AttentionCase& c = data.the_case();
  const auto sees = [&](Index b, Index h, Index i, Index j) {
    return reference::visible(c.options, data.q_positions(), data.k_positions(), c.q_len, c.k_len, b, h, i, j);
  };
  const auto fill = [&](View<T, 4> x, Index b, Index h, Index t) {
    for (Index d = 0; d < x.shape[3]; ++d) x(b, h, t, d) = number;
  };
  const Index group = c.heads / c.kv_heads;
  Index rows = 0;
  for (Index b = 0; b < c.batch; ++b) {
    for (Index j = 0; j < c.kv_heads * c.k_len; ++j) {
      bool seen = false;
      for (Index x = 0; x < group * c.q_len; ++x) {
        seen = seen || sees(b, j / c.k_len * group + x / c.q_len, x % c.q_len, j % c.k_len);
      }
      if (seen) continue;
      fill(data.k(), b, j / c.k_len, j % c.k_len), fill(data.v(), b, j / c.k_len, j % c.k_len);
      ++rows;
    }
    for (Index i = 0; i < c.heads * c.q_len; ++i) {
      bool seeing = false;
      for (Index j = 0; j < c.k_len; ++j) seeing = seeing || sees(b, i / c.q_len, i % c.q_len, j);
      if (seeing) continue;
      fill(data.q(), b, i / c.q_len, i % c.q_len), fill(data.d_out(), b, i / c.q_len, i % c.q_len);
      ++rows;
    }
  }
  return rows;
}

template <class T>
std::vector<T> garbage() {
  const auto number = [](double x) { return from_double<T>(x); };
  const double most = std::is_same_v<T, double> ? std::numeric_limits<double>::max() : 3e38;
  return {number(std::numeric_limits<double>::quiet_NaN()), number(-std::numeric_limits<double>::infinity()),
          number(most)};
}

/// Results, and the gradients of an encoding's parameters.
template <class T>
struct Results {
  AttentionGot<T, T> got;
  std::vector<std::vector<double>> params;

  Results(const NamedEncoding& encoding, const AttentionData<T>& data, const Executor& on) {
    Params p = encoding.params(data.the_case());
    const auto made = encoding.template make<Compute<T>>(p, data.the_case());
    got = data.backward(made.list, on);
    for (std::size_t n = 0; n < p.count(); ++n) {
      params.push_back(std::is_same_v<T, double>
                           ? p.grads(n)
                           : std::vector<double>(p.float_grads(n).begin(), p.float_grads(n).end()));
    }
  }
  /// Which of them is not the same.
  std::string differs(const Results& other) const {
    const auto& [out, d_q, d_k, d_v, lse, d_sinks] = got;
    if (!same_bits(out, other.got.out)) return "out";
    if (!same_bits(lse, other.got.lse)) return "lse";
    if (!same_bits(d_q, other.got.d_q)) return "d_q";
    if (!same_bits(d_k, other.got.d_k)) return "d_k";
    if (!same_bits(d_v, other.got.d_v)) return "d_v";
    if (!same_bits(d_sinks, other.got.d_sinks)) return "d_sinks";
    for (std::size_t n = 0; n < params.size(); ++n) {
      if (!same_bits(params[n], other.params[n])) return "the gradient of parameter " + std::to_string(n);
    }
    return "";
  }
};

template <class T>
void expect_unseen(const NamedEncoding& encoding, const AttentionCase& c, const std::string& way,
                   const Executor& on = {}) {
  const AttentionData<T> data(c);
  const Results<T> clean(encoding, data, on);
  for (const double x : in_double(clean.got.d_k)) ASSERT_TRUE(std::isfinite(x)) << encoding.name << ", " << way;
  for (const T number : garbage<T>()) {
    AttentionData<T> poisoned(c);
    ASSERT_GT(poison(poisoned, number), 0) << way << " hides nothing";
    EXPECT_EQ(Results<T>(encoding, poisoned, on).differs(clean), "")
        << encoding.name << ", hidden by " << way << ", where " << to_double(number) << " lies in " << 8 * sizeof(T)
        << " bits; " << describe(c);
  }
}

AttentionCase few(const NamedEncoding& encoding) {
  AttentionCase c{.heads = test::encoding_heads, .kv_heads = encoding.kv_heads, .q_len = 9, .k_len = 23};
  if (encoding.serves == Serves::grid) c.height = test::grid_height, c.width = test::grid_width, c.axes = 2;
  if (encoding.serves == Serves::three_axes) c.axes = 3;
  return c;
}

TEST(AttentionHidden, NothingThatLiesThereReachesAnyResultOfAnyEncoding) {
  const Hiding hiding(1, test::encoding_heads, 9, 23);
  const NamedEncodings encodings;
  for (const NamedEncoding& encoding : encodings.all()) {
    hiding.each(few(encoding), encoding.serves, [&](const char* way, const AttentionCase& c) {
      expect_unseen<double>(encoding, c, way);
      expect_unseen<float>(encoding, c, way);
      expect_unseen<Bfloat16>(encoding, c, way);
    });
  }
}

TEST(AttentionHidden, NorWhereWorkIsCutIntoBlocksAndShared) {
  const Hiding hiding(2, test::encoding_heads, 70, 330);
  const NamedEncodings encodings;
  for (const char* name : {"nothing", "rope-mixed", "rope, t5 and shaw", "deberta", "cope"}) {
    const NamedEncoding& encoding = encodings.find(name);
    AttentionCase c = few(encoding);
    c.batch = 2, c.q_len = 70, c.k_len = 330;
    hiding.each(c, encoding.serves, [&](const char* way, const AttentionCase& hidden) {
      expect_unseen<float>(encoding, hidden, way, test::backwards(3));
    });
  }
}

TEST(AttentionHidden, NorADecodeStep) {
  const NamedEncodings encodings;
  for (const Index q_len : {Index{4}, Index{6}}) {  // 4: the last row sees nothing when packed
    const Hiding hiding(2, test::encoding_heads, q_len, 300);
    for (const char* name : {"nothing", "rope", "t5", "shaw", "pope"}) {
      const NamedEncoding& encoding = encodings.find(name);
      AttentionCase c = few(encoding);
      c.batch = 2, c.q_len = q_len, c.k_len = 300;
      hiding.each(c, encoding.serves, [&](const char* way, const AttentionCase& hidden) {
        expect_unseen<float>(encoding, hidden, way);
        expect_unseen<Bfloat16>(encoding, hidden, way);
      });
    }
  }
}

/// A cache of blocks in another order, with one block that no sequence has; what is no key holds `number`.
template <class T>
void expect_paged(Index q_len, Mask mask) {
  const Index heads = 2, block = 16, blocks = 20, dim = 8;
  const std::vector<Index> lengths = {150, 299};
  std::vector<Index> table;
  for (Index b = 0; b < 2; ++b) {
    for (Index n = 0; n < blocks; ++n) table.push_back(1 + (b * blocks + n) * 7 % (2 * blocks));
  }
  std::vector<T> q, first;
  test::Random random(3);
  for (Index x = 0; x < 2 * heads * q_len * dim; ++x) q.push_back(from_double<T>(random.uniform(-1, 1)));
  const auto call = [&](T number) {
    const std::array<Index, 4> shape{2 * blocks + 1, heads, block, dim};
    std::vector<T> k(static_cast<std::size_t>((2 * blocks + 1) * heads * block * dim), number), v = k;
    test::Random numbers(4);
    for (Index b = 0; b < 2; ++b) {
      for (Index j = 0; j < lengths[static_cast<std::size_t>(b)]; ++j) {
        const Index page = table[static_cast<std::size_t>(b * blocks + j / block)];
        for (Index x = 0; x < heads * dim; ++x) {
          const auto at = static_cast<std::size_t>(((page * heads + x / dim) * block + j % block) * dim + x % dim);
          k[at] = from_double<T>(numbers.uniform(-1, 1)), v[at] = from_double<T>(numbers.uniform(-1, 1));
        }
      }
    }
    std::vector<T> out(q.size());
    AttentionOptions<Compute<T>> options{.mask = mask};
    options.k_lengths = dense(lengths.data(), 2);
    const auto cache = [&](const std::vector<T>& x) { return bhtd(x.data(), shape[0], heads, block, dim); };
    AttentionInputs<T> in{bhtd(q.data(), 2, heads, q_len, dim), cache(k), cache(v)};
    in.q_positions = Positions(100), in.block_table = dense<const Index>(table.data(), 2, blocks);
    attention<T, T>(in, bhtd(out.data(), 2, heads, q_len, dim), {}, {}, options);
    return out;
  };
  const std::vector<T> clean = call(from_double<T>(0.5));
  for (const T x : clean) ASSERT_TRUE(std::isfinite(to_double(x)));
  for (const T number : garbage<T>()) EXPECT_TRUE(same_bits(call(number), clean)) << to_double(number);
}

TEST(AttentionHidden, NorSlotsOfAPagedCacheThatHoldNoKey) {
  for (const Index q_len : {1, 3, 40}) {
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right}) {
      expect_paged<float>(q_len, mask);
      expect_paged<Bfloat16>(q_len, mask);
    }
  }
}

}  // namespace
}  // namespace bearing
