#include <gtest/gtest.h>
#include <algorithm>
#include <bearing/executor.hpp>

#include "support/attention.hpp"
#include "support/attention_encodings.hpp"
#include "support/hidden.hpp"
#include "support/workers.hpp"

// What nobody sees may hold anything: keys and values that no query sees, queries that see no key. Every way to hide
// them, every encoding, forward and every gradient: the same bits whatever lies there.

namespace bearing {
namespace {

using test::AttentionGot;
using test::from_double;
using test::garbage;
using test::Hiding;
using test::in_double;
using test::NamedEncoding;
using test::NamedEncodings;
using test::Params;
using test::poison;
using test::same_bits;
using test::to_double;

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
  return encoding.placed({.heads = test::encoding_heads, .q_len = 9, .k_len = 23});
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
  for (const char* name :
       {"nothing", "rope_mixed, small", "rotation, bias and values", "deberta, small", "cope, small"}) {
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
