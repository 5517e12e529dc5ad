#include <gtest/gtest.h>
#include <bearing/memory.hpp>
#include <chrono>
#include <set>
#include <vector>

#include "support/random.hpp"

// Whether tensors share memory is told exactly, whatever their strides.

namespace bearing {
namespace {

std::set<std::uintptr_t> bytes_of(const Memory& of) {
  std::set<std::uintptr_t> bytes;
  if (of.bytes == 0) return bytes;
  for (Index i = 0; i < of.shape[0]; ++i) {
    for (Index j = 0; j < of.shape[1]; ++j) {
      for (Index k = 0; k < of.shape[2]; ++k) {
        for (Index l = 0; l < of.shape[3]; ++l) {
          const Index element = i * of.stride[0] + j * of.stride[1] + k * of.stride[2] + l * of.stride[3];
          for (Index byte = 0; byte < of.bytes; ++byte) {
            bytes.insert(reinterpret_cast<std::uintptr_t>(of.data) +
                         static_cast<std::uintptr_t>(element * of.bytes + byte));
          }
        }
      }
    }
  }
  return bytes;
}

/// By looking at every byte.
bool shared_bytes(const Memory& a, const Memory& b) {
  const std::set<std::uintptr_t> of_a = bytes_of(a);
  for (const std::uintptr_t byte : bytes_of(b)) {
    if (of_a.contains(byte)) return true;
  }
  return false;
}

template <class T>
Memory random_memory(test::Random& random, const std::vector<double>& room) {
  View<const T, 4> x{reinterpret_cast<const T*>(room.data()) + random.integer(2000, 2300)};
  const bool nested = random.integer(0, 2) == 0;  // as real tensors are, with gaps; else any strides
  Index step = random.integer(1, 3);
  for (std::size_t axis = 4; axis-- > 0;) {
    x.shape[axis] = random.integer(0, 40) == 0 ? 0 : random.integer(1, 5);
    x.stride[axis] = nested ? step : random.integer(-40, 41);
    step *= x.shape[axis] + random.integer(0, 3);
  }
  return x;
}

TEST(SharesMemory, AgreesWithALookAtEveryByte) {
  const std::vector<double> room(4000);
  test::Random random(11);
  int shared = 0, apart = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto any = [&]() -> Memory {
      switch (random.integer(0, 3)) {
        case 0:
          return random_memory<double>(random, room);
        case 1:
          return random_memory<float>(random, room);
        default:
          return random_memory<std::uint16_t>(random, room);
      }
    };
    const Memory a = any(), b = any();
    const bool expected = shared_bytes(a, b);
    ASSERT_EQ(shares_memory(a, b), expected) << round;
    ASSERT_EQ(shares_memory(b, a), expected) << round;
    ++(expected ? shared : apart);
  }
  EXPECT_GT(shared, 400);  // both answers were asked for
  EXPECT_GT(apart, 400);
}

TEST(SharesMemory, NothingSharesWithNoElements) {
  const std::vector<float> room(100);
  const View<const float, 2> all = dense(room.data(), 10, 10), none{room.data() + 50, {0, 10}, {10, 1}};
  EXPECT_TRUE(shares_memory(all, all));
  EXPECT_FALSE(shares_memory(all, none));
  EXPECT_FALSE(shares_memory(none, none));
  EXPECT_FALSE(shares_memory(none, View<const float, 1>{}));
}

TEST(SharesMemory, SlicesOfOneBufferLieApart) {
  constexpr Index batch = 2, time = 300, heads = 8, dim = 64;
  std::vector<float> buffer(batch * time * 3 * heads * dim);
  const auto slice = [&](Index first, Index of_heads) {  // [batch, time, 3·heads, dim] as [batch, heads, time, dim]
    const Index row = 3 * heads * dim;
    return View<float, 4>{buffer.data() + first * dim, {batch, of_heads, time, dim}, {time * row, dim, row, 1}};
  };
  EXPECT_FALSE(shares_memory(slice(0, heads), slice(heads, heads)));
  EXPECT_FALSE(shares_memory(slice(heads, heads), slice(2 * heads, heads)));
  EXPECT_FALSE(shares_memory(slice(0, 16), slice(16, 4)));  // grouped queries
  EXPECT_TRUE(shares_memory(slice(0, heads + 1), slice(heads, heads)));
  View<float, 4> half = slice(0, heads), rest = half;  // halves of one head
  half.shape[3] = rest.shape[3] = dim / 2;
  rest.data += dim / 2;
  EXPECT_FALSE(shares_memory(half, rest));
  rest.data -= 1;
  EXPECT_TRUE(shares_memory(half, rest));
}

TEST(SharesMemory, TakesNoTimeForLongTensors) {
  float anything = 0;
  const auto tensor = [&](Index first, Index stride) {
    return View<float, 2>{&anything + first, {Index{1} << 30, 3}, {stride, 1}};
  };
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 1000; ++round) {
    EXPECT_FALSE(shares_memory(tensor(0, 7), tensor(3, 7)));
    EXPECT_TRUE(shares_memory(tensor(0, 7), tensor(2, 7)));
    EXPECT_FALSE(shares_memory(tensor(0, 70), tensor(3, 7 * 14)));  // never met: multiples of 14 on either side
  }
  EXPECT_TRUE(shares_memory(tensor(0, 1'000'003), tensor(3, 999'983)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

}  // namespace
}  // namespace bearing
