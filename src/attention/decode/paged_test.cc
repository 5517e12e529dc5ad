#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <bearing/error.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "support/attention.hpp"
#include "support/attention_encodings.hpp"
#include "support/errors.hpp"
#include "support/targets.hpp"
#include "support/workers.hpp"

// Paged caches give what the same keys give side by side, whatever lies in blocks and rows that no sequence has.

namespace bearing {
namespace {

/// A case's keys and values in blocks, in an order of their own; what no sequence has is a NaN.
template <class T>
class Paged {
 public:
  Paged(const AttentionData<T>& data, Index block_size) : block_size_(block_size) {
    const AttentionCase& c = data.the_case();
    const AttentionInputs<T> in = data.inputs();
    columns_ = (c.k_len + block_size - 1) / block_size;
    const Index blocks = c.batch * columns_ + 3;
    std::vector<Index> order(static_cast<std::size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    test::Random random(4);
    for (std::size_t n = order.size(); n-- > 1;) {
      std::swap(order[n], order[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(n)))]);
    }
    const T hole = test::from_double<T>(std::numeric_limits<double>::quiet_NaN());
    k_.resize(static_cast<std::size_t>(blocks * c.kv_heads * block_size * c.dim), hole);
    v_.resize(static_cast<std::size_t>(blocks * c.kv_heads * block_size * c.value_dim), hole);
    const auto k = bhtd(k_.data(), blocks, c.kv_heads, block_size, c.dim);
    const auto v = bhtd(v_.data(), blocks, c.kv_heads, block_size, c.value_dim);
    const auto& given = c.options.k_lengths;
    std::size_t next = 0;
    for (Index b = 0; b < c.batch; ++b) {
      lengths_.push_back(given.data == nullptr ? c.k_len : given(b));
      for (Index n = 0; n < columns_; ++n) {
        const bool there = n * block_size < lengths_.back();
        table_.push_back(there ? order[next++] : n % 2 == 0 ? -7 : 1'000'000);
        if (!there) continue;
        for (Index j = n * block_size; j < std::min((n + 1) * block_size, lengths_.back()); ++j) {
          for (Index h = 0; h < c.kv_heads; ++h) {
            for (Index d = 0; d < c.dim; ++d) k(table_.back(), h, j % block_size, d) = in.k(b, h, j, d);
            for (Index d = 0; d < c.value_dim; ++d) v(table_.back(), h, j % block_size, d) = in.v(b, h, j, d);
          }
        }
      }
    }
    in_ = in;
    in_.k = k, in_.v = v;
    in_.block_table = dense<const Index>(table_.data(), c.batch, columns_);
  }

  const AttentionInputs<T>& inputs() const { return in_; }
  Index k_len() const { return columns_ * block_size_; }

  test::AttentionGot<T, T> forward(const AttentionData<T>& data, const TermList<Compute<T>>& terms,
                                   const Executor& on = {}) const {
    const AttentionCase& c = data.the_case();
    test::AttentionGot<T, T> got;
    got.out.resize(static_cast<std::size_t>(c.batch * c.heads * c.q_len * c.value_dim));
    got.lse.resize(static_cast<std::size_t>(c.batch * c.heads * c.q_len));
    auto options = data.options();
    options.k_lengths = dense<const Index>(lengths_.data(), c.batch);
    attention(in_, bhtd(got.out.data(), c.batch, c.heads, c.q_len, c.value_dim),
              dense(got.lse.data(), c.batch, c.heads, c.q_len), terms, options, on);
    return got;
  }

 private:
  Index block_size_, columns_;
  std::vector<T> k_, v_;
  std::vector<Index> table_, lengths_;
  AttentionInputs<T> in_;
};

/// The reference's numbers over keys side by side.
template <class T>
void expect_paged(const AttentionCase& c, Index block_size, const TermList<Compute<T>>& terms = {},
                  const TermList<double>& terms_in_double = {}) {
  const AttentionData<T> data(c);
  const auto truth = test::attention_truth(data.problem(false), terms_in_double);
  const auto got = Paged<T>(data, block_size).forward(data, terms);
  const std::string what = describe(c) + ", blocks of " + std::to_string(block_size);
  test::expect_close(got.out, truth.out, truth.score_size, c.k_len, "out of " + what, truth.sizes.out);
  test::expect_close(got.lse, truth.lse, truth.score_size, c.k_len, "lse of " + what, 1);
}

constexpr Index block_sizes[] = {1, 3, 16, 64};

TEST(Paged, DecodeAndPrefillInBlocksOfAnySize) {
  test::on_every_target([] {
    const std::vector<Index> lengths = {300, 261, 0};
    for (const Index block_size : block_sizes) {
      for (const Index q_len : {1, 3, 40}) {
        AttentionCase c{.batch = 3, .heads = 4, .kv_heads = 2, .q_len = q_len, .k_len = 300, .dim = 10, .value_dim = 7};
        c.options.k_lengths = dense(lengths.data(), 3);
        expect_paged<double>(c, block_size);
        expect_paged<float>(c, block_size);
        expect_paged<Bfloat16>(c, block_size);
        expect_paged<Float16>(c, block_size);
        c.options.mask = Mask::causal_bottom_right;
        expect_paged<float>(c, block_size);
        c.options.window = {.before = 70, .after = 0};
        expect_paged<float>(c, block_size);
      }
    }
  });
}

TEST(Paged, EncodingsOfEveryKind) {
  const test::NamedEncodings encodings;
  const std::vector<Index> lengths = {300, 270};
  for (const char* name : {"alibi", "t5", "shaw", "rope", "cope", "pope", "dense_bias", "rotation, bias and values"}) {
    SCOPED_TRACE(name);
    const test::NamedEncoding& encoding = encodings.find(name);
    for (const Index q_len : {2, 40}) {
      AttentionCase c{.batch = 2, .heads = test::encoding_heads, .kv_heads = encoding.kv_heads, .q_len = q_len};
      c.k_len = 300, c.dim = c.value_dim = test::encoding_dim, c.q_first = 260;
      c.options = {.mask = Mask::causal}, c.options.k_lengths = dense(lengths.data(), 2);
      test::Params params = encoding.params(c);
      const auto f64 = encoding.make<double>(params, c);
      const auto f32 = encoding.make<float>(params, c);
      for (const Index block_size : {3, 20}) {  // 300 is a multiple of both, so that a dense bias has as many keys
        expect_paged<double>(c, block_size, f64.list, f64.list);
        expect_paged<float>(c, block_size, f32.list, f64.list);
        expect_paged<Bfloat16>(c, block_size, f32.list, f64.list);
      }
    }
  }
}

TEST(Paged, SameBitsAsSideBySideAndForAnyExecutor) {
  for (const Index q_len : {1, 40}) {
    const AttentionCase c{.batch = 2, .heads = 4, .kv_heads = 2, .q_len = q_len, .k_len = 640, .dim = 24};
    const AttentionData<float> data(c);
    const auto plain = data.forward({});
    for (const Index block_size : {1, 16, 64}) {  // divisors of 640: the same k_len
      const Paged<float> paged(data, block_size);
      for (const Index threads : {1, 2, 3, 7, 16}) {
        const auto got = paged.forward(data, {}, test::Workers(threads));
        EXPECT_TRUE(got.same_bits_as(plain)) << threads << " threads, blocks of " << block_size;
      }
    }
  }
}

TEST(Paged, WrongTablesAreRefused) {
  const AttentionCase c{.batch = 2, .k_len = 300};
  const AttentionData<float> data(c);
  const Paged<float> paged(data, 16);
  std::vector<float> out(32);
  const std::vector<Index> lengths = {300, 290};
  std::vector<Index> table(38);
  const auto call = [&](const AttentionInputs<float>& in, View<const Index, 1> k_lengths) {
    attention<float>(in, bhtd(out.data(), 2, 2, 1, 8), {}, {}, {.mask = Mask::none, .k_lengths = k_lengths});
  };
  AttentionInputs<float> in = paged.inputs();
  const auto all = dense(lengths.data(), 2);
  const Index blocks = in.k.shape[0];
  for (const Index wrong : {Index{-1}, blocks}) {
    for (std::size_t n = 0; n < table.size(); ++n) table[n] = in.block_table.data[n];
    table[19 + 18] = wrong;
    AttentionInputs<float> bad = in;
    bad.block_table = dense<const Index>(table.data(), 2, 19);
    test::expect_error<RangeError>([&] { call(bad, all); }, "[attention] block_table: must name one of " +
                                                                std::to_string(blocks) + " blocks, got " +
                                                                std::to_string(wrong) + " for block 18 of sequence 1");
    const std::vector<Index> shorter = {300, 288};
    EXPECT_NO_THROW(call(bad, dense(shorter.data(), 2)));  // where nobody looks, a table may hold anything
  }
  test::expect_error<ShapeError>([&] { call(in, {}); }, "[attention] k_lengths: must be given for a paged cache");
  AttentionInputs<float> one = in;
  one.block_table.shape[0] = 1;
  test::expect_error<ShapeError>(
      [&] { call(one, all); },
      "[attention] block_table: must be [batch, blocks of a sequence] with batch = 2, got [1, 19]");
  const std::vector<Index> longer = {305, 290};
  test::expect_error<RangeError>([&] { call(in, dense(longer.data(), 2)); },
                                 "[attention] k_lengths: must be from 0 to k_len = 304, got 305 for sequence 0");
}

// A step of an engine that has nothing to decode.
TEST(Paged, AnEmptyBatchNeedsNoMemory) {
  std::vector<float> cache(3 * 2 * 2 * 8);
  const auto blocks = bhtd<const float>(cache.data(), 3, 2, 2, 8);
  AttentionInputs<float> in{bhtd<const float>(nullptr, 0, 4, 1, 8), blocks, blocks};
  in.block_table = {nullptr, {0, 2}, {2, 1}};
  attention<float>(in, bhtd<float>(nullptr, 0, 4, 1, 8), dense<float>(nullptr, 0, 4, 1), {}, {.mask = Mask::causal});
  const Index lengths = 1;
  attention<float>(in, bhtd<float>(nullptr, 0, 4, 1, 8), {}, {},
                   {.mask = Mask::causal, .k_lengths = dense(&lengths, 0)});
}

/// Numbers between two pages that cannot be read.
template <class T>
class Walled {
 public:
  explicit Walled(std::size_t count) {
    page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (count * sizeof(T) + page_ - 1) / page_ * page_;
    void* memory = mmap(nullptr, inside_ + 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<char*>(memory);
    if (mprotect(memory_, page_, PROT_NONE) != 0 || mprotect(memory_ + page_ + inside_, page_, PROT_NONE) != 0) {
      throw std::bad_alloc();
    }
    count_ = count;
  }
  Walled(const Walled&) = delete;
  ~Walled() { munmap(memory_, inside_ + 2 * page_); }

  T* at_first() { return reinterpret_cast<T*>(memory_ + page_); }
  /// The last number touches the wall.
  T* at_last() { return reinterpret_cast<T*>(memory_ + page_ + inside_) - count_; }
  /// Makes whole pages of these bytes unreadable too.
  void close(const T* from, std::size_t count) {
    const auto pages = [&](std::uintptr_t x) { return x / page_ * page_; };
    const std::uintptr_t first = pages(reinterpret_cast<std::uintptr_t>(from) + page_ - 1);
    const std::uintptr_t end = pages(reinterpret_cast<std::uintptr_t>(from + count));
    ASSERT_LT(first, end);
    ASSERT_EQ(mprotect(reinterpret_cast<void*>(first), end - first, PROT_NONE), 0);
  }

 private:
  char* memory_ = nullptr;
  std::size_t page_ = 0, inside_ = 0, count_ = 0;
};

/// The case's keys and values between walls, at either end of their pages.
template <class T>
void expect_nothing_past_the_ends(const AttentionCase& c) {
  const AttentionData<T> data(c);
  const auto wanted = data.forward({});
  const AttentionInputs<T> in = data.inputs();
  for (const bool last : {false, true}) {
    Walled<T> q(static_cast<std::size_t>(in.q.size())), k(static_cast<std::size_t>(in.k.size())),
        v(static_cast<std::size_t>(in.v.size()));
    AttentionInputs<T> walled = in;
    const auto place = [&](View<const T, 4>& x, Walled<T>& memory) {
      T* to = last ? memory.at_last() : memory.at_first();
      std::copy_n(x.data, x.size(), to);
      x.data = to;
    };
    place(walled.q, q), place(walled.k, k), place(walled.v, v);
    std::vector<T> out(wanted.out.size());
    attention(walled, bhtd(out.data(), c.batch, c.heads, c.q_len, c.value_dim), {}, {}, data.options());
    EXPECT_TRUE(test::same_bits(out, wanted.out)) << describe(c);
  }
}

TEST(Paged, CachesThatEndAtUnreadableMemory) {
  test::on_every_target([] {
    for (const Index q_len : {1, 40}) {
      for (const auto& [dim, value_dim] : {std::pair<Index, Index>{1, 1}, {7, 9}, {16, 16}, {33, 31}}) {
        const AttentionCase c{
            .heads = 3, .kv_heads = 1, .q_len = q_len, .k_len = 259, .dim = dim, .value_dim = value_dim};
        expect_nothing_past_the_ends<double>(c);
        expect_nothing_past_the_ends<float>(c);
        expect_nothing_past_the_ends<Bfloat16>(c);
        expect_nothing_past_the_ends<Float16>(c);
      }
    }
  });
}

TEST(Paged, AWindowReadsNothingButItsKeys) {
  // 256 bytes a key: whole pages of keys before the window, and past the sequence's length, cannot be read.
  const Index k_len = 8192;
  const std::vector<Index> length = {6000};
  AttentionCase c{.heads = 1, .kv_heads = 1, .q_len = 2, .k_len = k_len, .dim = 64, .value_dim = 64};
  c.options = {.mask = Mask::causal, .window = {.before = 1023, .after = 0}};
  c.options.k_lengths = dense(length.data(), 1), c.q_first = 5998;
  const AttentionData<float> data(c);
  const auto wanted = data.forward({});
  AttentionInputs<float> in = data.inputs();
  Walled<float> k(static_cast<std::size_t>(in.k.size())), v(static_cast<std::size_t>(in.v.size()));
  for (const auto& [x, memory] : {std::pair<View<const float, 4>*, Walled<float>*>{&in.k, &k}, {&in.v, &v}}) {
    std::copy_n(x->data, x->size(), memory->at_first());
    memory->close(memory->at_first(), 64 * (5998 - 1023));
    memory->close(memory->at_first() + 64 * 6000, static_cast<std::size_t>(64 * (k_len - 6000)));
    x->data = memory->at_first();
  }
  std::vector<float> out(128);
  attention<float>(in, bhtd(out.data(), 1, 1, 2, 64), {}, {}, data.options());
  EXPECT_TRUE(test::same_bits(out, wanted.out));
}

}  // namespace
}  // namespace bearing
