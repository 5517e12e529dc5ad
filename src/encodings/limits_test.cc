#include <gtest/gtest.h>
#include <bearing/encodings/bert_relative.hpp>
#include <bearing/encodings/cape.hpp>
#include <bearing/encodings/fope.hpp>
#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/lie_rope.hpp>
#include <bearing/encodings/pope.hpp>
#include <bearing/encodings/position_temperature.hpp>
#include <bearing/encodings/rope_mixed.hpp>
#include <bearing/encodings/sandwich.hpp>
#include <bearing/encodings/shaw.hpp>
#include <bearing/encodings/sinusoidal_2d.hpp>
#include <bearing/encodings/swin_v2.hpp>
#include <bearing/encodings/xpos.hpp>
#include <bearing/error.hpp>
#include <limits>
#include <string>
#include <vector>

#include "encodings/limits.hpp"
#include "support/errors.hpp"

// Sizes that no model has are refused by name before anything is worked out for them.

namespace bearing {
namespace {

using test::expect_error;

constexpr Index absurd[] = {Index{1} << 31, Index{1} << 50, Index{1} << 62, 0, -1};

std::string got(const char* text, Index n) { return text + std::to_string(n); }

TEST(Limits, DimensionsThatNoModelHasAreRefused) {
  for (const Index n : absurd) {
    expect_error<ShapeError>([&] { SandwichBias<float>({.heads = 2, .dim = n}); },
                             got("[SandwichBias] dim: must be even and from 2 to 65536, got ", n));
    expect_error<ShapeError>([&] { PopeRows<float>({.head_dim = n}); },
                             got("[PopeRows] head_dim: must be from 1 to 65536, got ", n));
    expect_error<ShapeError>([&] { fope_frequencies({.head_dim = n, .trained_length = 9, .pairing = Pairing::half}); },
                             got("[fope_frequencies] head_dim: must be even and from 2 to 65536, got ", n));
    expect_error<ShapeError>([&] { sinusoidal_columns({.dim = n, .layout = SinusoidalLayout::interleaved}); },
                             got("[Sinusoidal] dim: must be from 2 to 65536, got ", n));
    expect_error<ShapeError>([&] { Sinusoidal2dInputs<float>(Sinusoidal2d::detr(n)); },
                             got("[Sinusoidal2d] dim: must be a positive multiple of 4, at most 65536, got ", n));
    expect_error<ShapeError>([&] { Cape2dInputs<float>({.dim = n}); },
                             got("[Cape2dInputs] dim: must be even and from 4 to 65536, got ", n));
    expect_error<ShapeError>([&] { RopeMixedRows<float>({.head_dim = n, .pairing = Pairing::half}, {}); },
                             got("[RopeMixedRows] head_dim: must be even and from 2 to 65536, got ", n));
    expect_error<ShapeError>(
        [&] { rope_mixed_frequencies({.head_dim = n, .pairing = Pairing::half}, 1, 0); },
        got("[rope_mixed_frequencies] mixed: must have two axes and a head_dim that is a multiple of 4, at most 65536, "
            "got 2 and ",
            n));
    expect_error<ShapeError>([&] { LieRopeRows<float>({.head_dim = n}, {}); },
                             got("[LieRopeRows] head_dim: must be from 2 to 65536, got ", n));
    expect_error<ShapeError>([&] { xpos_decay({.rope = {.head_dim = n, .pairing = Pairing::interleaved}}); },
                             got("[xpos_decay] rope.head_dim: must be from 2 to 65536, got ", n));
  }
}

TEST(Limits, TheLargestDimensionsServe) {
  EXPECT_NO_THROW(PopeRows<float>({.head_dim = largest_dim}));
  EXPECT_NO_THROW(SandwichBias<float>({.heads = 1, .dim = largest_dim}));
  EXPECT_EQ(fope_frequencies({.head_dim = largest_dim, .kept = 3, .pairing = Pairing::half}).size(), 3u);
  EXPECT_EQ(xpos_decay({.rope = {.head_dim = largest_dim, .pairing = Pairing::half}}).size(), 32'768u);
}

TEST(Limits, TablesThatCannotBeHaveNoRows) {
  for (const Index n : {Index{1} << 50, Index{1} << 62, std::numeric_limits<Index>::max(), Index{-1},
                        std::numeric_limits<Index>::min()}) {
    expect_error<RangeError>([&] { (void)Shaw{.clip = n}.rows(); },
                             got("[Shaw] clip: must be from 0 to 2^31, got ", n));
    expect_error<RangeError>([&] { (void)BertRelative{.max_position_embeddings = n}.rows(); },
                             got("[BertRelative] max_position_embeddings: must be from 1 to 2^31, got ", n));
    expect_error<RangeError>([&] { (void)Wav2Vec2BertRelative{.left = 3, .right = n}.rows(); },
                             got("[Wav2Vec2BertRelative] left, right: must be from 0 to 2^31, got 3, ", n));
    expect_error<RangeError>([&] { (void)Learned{.length = 3, .dim = 2, .offset = n}.rows(); },
                             got("[Learned] length, offset: must be from 0 to 2^31, got 3, ", n));
    expect_error<ShapeError>([&] { (void)Swin{.height = 7, .width = n}.rows(); },
                             got("[Swin] height, width: must be from 1 to 1024, got 7, ", n));
  }
  EXPECT_EQ(Shaw{.clip = max_position}.rows(), (Index{1} << 32) + 1);
  EXPECT_EQ((Swin{.height = largest_window, .width = 1}.rows()), 2047);
}

TEST(Limits, WindowsOfAnyTrainingAreWithinReason) {
  const std::vector<double> w1(2), b1(1), w2(1);
  const SwinV2Network<double> network{{dense(w1.data(), 1, 2)}, {dense(b1.data(), 1)}, {dense(w2.data(), 1, 1)}};
  std::vector<double> table(15, 7);
  const auto make = [&](const SwinV2& spec) { swin_v2_table<double>(spec, network, dense(table.data(), 15, 1)); };
  for (const Index n : {Index{1} << 31, Index{1} << 50, Index{1} << 62, Index{-1}}) {
    expect_error<ShapeError>(
        [&] {
          make({.window = {n, 3}});
        },
        "[swin_v2_table] window.height, window.width: must be from 1 to 1024, got " + std::to_string(n) + ", 3");
    expect_error<ShapeError>(
        [&] {
          make({.window = {2, 3}, .trained_width = n});
        },
        "[swin_v2_table] trained_height, trained_width: must be from 0 (the window's) to "
        "1024, got 0, " +
            std::to_string(n));
  }
  EXPECT_EQ(table, std::vector<double>(15, 7));
  make({.window = {2, 3}, .trained_height = largest_window});
}

TEST(Limits, LengthsAndFirstPositionsAreWithinThoseOfPositions) {
  for (const Index n : {Index{1} << 50, Index{1} << 62, Index{-1}}) {
    expect_error<RangeError>(
        [&] { fope_frequencies({.head_dim = 4, .trained_length = n, .kept = 1, .pairing = Pairing::half}); },
        got("[fope_frequencies] trained_length: must be from 0 to 2^31, got ", n));
  }
  for (const Index n : {Index{1} << 50, std::numeric_limits<Index>::min()}) {
    expect_error<RangeError>([&] { TemperatureRows<float>({.first = n}); },
                             got("[TemperatureRows] first: must be from -2^31 to 2^31, got ", n));
  }
  expect_error<RangeError>([] { PositionTemperature::llama4().factor(-2); },
                           "[PositionTemperature] m: must be at least -first, got -2 for a first of 1");
}

}  // namespace
}  // namespace bearing
