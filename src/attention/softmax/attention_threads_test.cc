#include <gtest/gtest.h>
#include <thread>

#include "support/attention_encodings.hpp"
#include "support/linear_cases.hpp"
#include "support/workers.hpp"

// Attention on real threads, for ThreadSanitizer to watch, and in other orders on one: the bits are those of one
// thread.

namespace bearing {
namespace {

using test::NamedEncoding;
using test::NamedEncodings;
using test::Params;

const NamedEncodings& encodings() {
  static const NamedEncodings all;
  return all;
}

template <class T>
void expect_bits_of_one_thread(const NamedEncoding& encoding, const AttentionCase& c) {
  SCOPED_TRACE(encoding.name + ", " + describe(c));
  const test::Everything<T> alone = test::everything<T>(encoding, c, {});
  for (const Index workers : {3, 16}) {
    test::Workers threads(workers);
    EXPECT_TRUE(test::everything<T>(encoding, c, threads).same_bits_as(alone)) << workers << " threads";
  }
}

template <class T>
void expect_bits_in_any_order(const NamedEncoding& encoding, const AttentionCase& c) {
  SCOPED_TRACE(encoding.name + ", " + describe(c));
  const test::Everything<T> alone = test::everything<T>(encoding, c, {});
  EXPECT_TRUE(test::everything<T>(encoding, c, {}).same_bits_as(alone)) << "the same call twice";
  for (const Index workers : {1, 2, 5, 7}) {
    EXPECT_TRUE(test::everything<T>(encoding, c, test::backwards(workers)).same_bits_as(alone))
        << workers << " tasks backwards";
  }
}

/// Tokens enough for several blocks, in groups of two heads, under sinks and a causal mask with a window.
AttentionCase many(const NamedEncoding& encoding) {
  static const std::vector<double> sinks = {0.5, -1, 2, 0};
  AttentionCase c{.batch = 2, .heads = 4, .kv_heads = encoding.kv_heads, .q_len = 210, .k_len = 300, .q_first = 90};
  c.options = {.mask = Mask::causal, .window = {.before = 200, .after = -1}, .soft_cap = 5};
  c.options.sinks = {dense(sinks.data(), 4)};
  return c;
}

/// Calls `expect` with an encoding, a case of it and a number of the type to try.
template <class Expect>
void for_each_kind(Expect expect) {
  for (const char* name : {"nothing", "alibi_learned", "rotation, bias and values", "dense_bias", "cope"}) {
    const NamedEncoding& encoding = encodings().find(name);
    expect(encoding, many(encoding), float{});
  }
  const NamedEncoding& mixed = encodings().find("two biases and rows");
  expect(mixed, many(mixed), double{});
  expect(encodings().find("t5"), many(encodings().find("t5")), Bfloat16{});
}

template <class Expect>
void for_each_step(Expect expect) {
  for (const char* name : {"nothing", "alibi", "rope"}) {
    const NamedEncoding& encoding = encodings().find(name);
    for (const Index q_len : {1, 3}) {
      AttentionCase c{.batch = 1, .heads = 4, .kv_heads = encoding.kv_heads, .q_len = q_len, .k_len = 3000};
      c.q_first = 3000 - q_len, c.options.mask = Mask::causal;
      expect(encoding, c, float{});
      expect(encoding, c, Float16{});
    }
  }
}

constexpr auto of_one_thread = [](const NamedEncoding& encoding, const AttentionCase& c, auto type) {
  expect_bits_of_one_thread<decltype(type)>(encoding, c);
};
constexpr auto in_any_order = [](const NamedEncoding& encoding, const AttentionCase& c, auto type) {
  expect_bits_in_any_order<decltype(type)>(encoding, c);
};

TEST(AttentionOnThreads, GivesTheBitsOfOneThread) { for_each_kind(of_one_thread); }
TEST(AttentionInAnyOrder, GivesTheSameBits) { for_each_kind(in_any_order); }

TEST(AttentionOnThreads, ADecodeStepGivesTheBitsOfOneThread) { for_each_step(of_one_thread); }
TEST(AttentionInAnyOrder, ADecodeStepGivesTheSameBits) { for_each_step(in_any_order); }

TEST(AttentionOnThreads, LinearAttentionGivesTheBitsOfOneThread) {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    test::LinearData<float> data({.batch = 2,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .q_len = 200,
                                  .k_len = 200,
                                  .dim = 10,
                                  .value_dim = 37,
                                  .mask = mask,
                                  .rope = true});
    const std::vector<float> alone = data.all_bits({});
    for (const Index workers : {2, 5}) {
      test::Workers threads(workers);
      EXPECT_TRUE(test::same_bits(data.all_bits(threads), alone)) << workers << " threads";
    }
  }
}

TEST(AttentionOnThreads, EncodingsAreSharedByCallsAtOnce) {
  const NamedEncoding& encoding = encodings().find("rotation, bias and values");
  AttentionCase c{.heads = 4, .kv_heads = encoding.kv_heads, .q_len = 40, .k_len = 40};
  Params params = encoding.params(c);
  const auto made = encoding.make<float>(params, c);
  const AttentionData<float> data(c);
  const auto alone = data.forward(made.list);
  std::vector<test::AttentionGot<float, float>> got(8);
  std::vector<std::thread> threads;
  for (auto& each : got) threads.emplace_back([&] { each = data.forward(made.list); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : got) EXPECT_TRUE(each.same_bits_as(alone));
}

}  // namespace
}  // namespace bearing
