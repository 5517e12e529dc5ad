#include <gtest/gtest.h>
#include <bearing/memory.hpp>
#include <bearing/param_block.hpp>
#include <bearing/positions.hpp>
#include <bearing/view.hpp>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

namespace bearing {
namespace {

enum class Choice { first, second };

TEST(View, DenseStridesAreRowMajor) {
  std::vector<int> data(24);
  std::iota(data.begin(), data.end(), 0);
  const auto view = dense(data.data(), 2, 3, 4);
  EXPECT_EQ(view.shape, (std::array<Index, 3>{2, 3, 4}));
  EXPECT_EQ(view.stride, (std::array<Index, 3>{12, 4, 1}));
  EXPECT_EQ(view.size(), 24);
  EXPECT_EQ(view(1, 2, 3), 23);
  EXPECT_EQ(view(1, 0, 2), 14);
  static_assert(dense(static_cast<int*>(nullptr), 5).stride[0] == 1);
}

TEST(View, KeepsItsDeviceWhenItIsSeenOtherwise) {
  std::vector<double> data(24);
  const Device cuda{Device::Kind::cuda, 3};
  View<double, 3> view = dense(data.data(), 2, 3, 4);
  EXPECT_EQ(view.device, Device{});
  EXPECT_TRUE(view.device.is_host());
  view.device = cuda;
  EXPECT_FALSE(view.device.is_host());
  const View<const double, 3> read = view;
  EXPECT_EQ(read.device, cuda);
  EXPECT_EQ(slice(view, 1, 2).device, cuda);
  const View<double, 4> batch = batch_of_one(view);
  EXPECT_EQ(batch.device, cuda);
  EXPECT_EQ(batch.shape, (std::array<Index, 4>{1, 2, 3, 4}));
  EXPECT_EQ(&batch(0, 1, 2, 3), &view(1, 2, 3));
  EXPECT_EQ(Memory(view).device, cuda);
  EXPECT_EQ(Positions(view).memory().device, cuda);
  EXPECT_EQ(Positions(slice(view, 0, 0)).memory().device, cuda);
  EXPECT_EQ(Positions(slice(slice(view, 0, 0), 0, 0)).memory().device, cuda);
  std::vector<Index> firsts(2);
  View<Index, 1> starts = dense(firsts.data(), 2);
  starts.device = cuda;
  EXPECT_EQ(Positions::starting_at(starts).memory().device, cuda);
  std::vector<std::int32_t> numbers(2);
  View<std::int32_t, 1> narrow = dense(numbers.data(), 2);
  narrow.device = cuda;
  EXPECT_EQ(Positions(narrow).memory().device, cuda);
  EXPECT_EQ(Positions::starting_at(narrow).memory().device, cuda);
}

TEST(View, OfDifferentDevicesShareNoMemory) {
  std::vector<double> data(4);
  View<double, 1> here = dense(data.data(), 4), there = here, pinned = here;
  there.device = {Device::Kind::rocm, 0};
  pinned.device = {Device::Kind::cuda_host, 0};
  EXPECT_TRUE(shares_memory(here, here));
  EXPECT_TRUE(shares_memory(there, there));
  EXPECT_TRUE(shares_memory(here, pinned));
  EXPECT_FALSE(shares_memory(here, there));
}

TEST(View, BothMemoryOrdersHaveTheSameAxes) {
  // The element (b, h, t, d) of 2 × 3 × 5 × 7, found by hand in either order.
  std::vector<int> data(2 * 3 * 5 * 7);
  std::iota(data.begin(), data.end(), 0);
  const auto heads_first = bhtd(data.data(), 2, 3, 5, 7);
  const auto time_first = bthd(data.data(), 2, 5, 3, 7);
  EXPECT_EQ(heads_first.shape, time_first.shape);
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 3; ++h) {
      for (int t = 0; t < 5; ++t) {
        for (int d = 0; d < 7; ++d) {
          ASSERT_EQ(heads_first(b, h, t, d), ((b * 3 + h) * 5 + t) * 7 + d);
          ASSERT_EQ(time_first(b, h, t, d), ((b * 5 + t) * 3 + h) * 7 + d);
        }
      }
    }
  }
}

TEST(View, StridesMayBeZeroOrNegative) {
  const std::vector<int> data{1, 2, 3};
  const View<const int, 2> broadcast{data.data(), {4, 3}, {0, 1}};
  EXPECT_EQ(broadcast(3, 2), 3);
  EXPECT_EQ(broadcast.size(), 12);
  const View<const int, 1> backwards{data.data() + 2, {3}, {-1}};
  EXPECT_EQ(backwards(0), 3);
  EXPECT_EQ(backwards(2), 1);
}

TEST(View, AnEmptyAxisMakesItEmpty) {
  EXPECT_EQ(bhtd<float>(nullptr, 3, 4, 0, 8).size(), 0);
  EXPECT_EQ((View<float, 2>{}.size()), 0);
}

TEST(View, AWritableViewServesWhereOneReadsButNotTheReverse) {
  float data[4] = {};
  const View<float, 2> writable = dense(data, 2, 2);
  const View<const float, 2> readable = writable;
  writable(1, 0) = 5;
  EXPECT_EQ(readable(1, 0), 5);
  static_assert(std::is_convertible_v<View<float, 2>, View<const float, 2>>);
  static_assert(!std::is_convertible_v<View<const float, 2>, View<float, 2>>);
  static_assert(!std::is_convertible_v<View<float, 2>, View<const float, 3>>);
}

TEST(Param, HasNoGradientUnlessGivenOne) {
  const double weights[2] = {1, 2};
  const Param<double, 1> fixed{dense(weights, 2)};
  EXPECT_EQ(fixed.grad.data, nullptr);
  EXPECT_EQ(fixed.value(1), 2);
}

TEST(Required, HoldsItsValueAndHasNoDefault) {
  const Required<Choice> choice = Choice::second;
  EXPECT_TRUE(choice == Choice::second);
  static_assert(!std::is_default_constructible_v<Required<Choice>>);
}

TEST(View, SizesThatDoNotFitAreTheNearestThatDo) {
  constexpr Index large = Index{1} << 40, most = std::numeric_limits<Index>::max();
  float* const none = nullptr;
  EXPECT_EQ(dense(none, large, large).size(), most);
  EXPECT_EQ(dense(none, large, 0, large).size(), 0);
  EXPECT_EQ(dense(none, 2, large, large).stride[0], most);
  EXPECT_EQ(bhtd(none, 0, large, large, 8).stride[0], most);
  EXPECT_EQ(bthd(none, 0, large, large, 8).stride[0], most);
  EXPECT_EQ(extents_product(-large, large), std::numeric_limits<Index>::min());
}

}  // namespace
}  // namespace bearing
