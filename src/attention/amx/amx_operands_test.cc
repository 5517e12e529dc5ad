#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "attention/amx/amx_packing.hpp"
#include "support/amx_machines.hpp"
#include "support/random.hpp"

// What matrix tiles multiply: numbers rounded to bfloat16 or in pieces of it, in their places; and products of it.

namespace bearing::attend::amx {
namespace {

using test::all_kernels;
using test::Named;
using test::Random;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// The sum of the pieces at `index` of a layout of one piece, of which a tile or a row of a tile has `together`.
float sum_of_pieces(const std::vector<Bfloat16>& packed, Index index, Index together) {
  const Index first = index / together * together * float_pieces + index % together;
  float sum = 0;
  for (int piece = float_pieces - 1; piece >= 0; --piece) {
    sum += static_cast<float>(packed[at(first + piece * together)]);
  }
  return sum;
}

TEST(AmxOperands, PiecesOfFloatsAddUpToThem) {
  for (const Named& each : all_kernels()) {
    SCOPED_TRACE(each.name);
    for (Index rows : {1, 16, 33}) {
      const Index dim = 64, stride = 67;
      Random random(static_cast<std::uint64_t>(rows));
      std::vector<float> from(at(rows * stride));
      for (float& x : from) {
        x = static_cast<float>(std::ldexp(random.uniform(-2, 2), static_cast<int>(random.uniform(-80, 100))));
      }
      from[0] = std::bit_cast<float>(0xFFFFFFFFu), from[1] = std::numeric_limits<float>::max(),
      from[2] = -0x1.fffffep-1f, from[3] = 0x1.ffp127f;
      const std::size_t size = at(padded(rows) * dim * float_pieces);
      std::vector<Bfloat16> queries(size), keys(size), values(size), turned(size);
      each.kernels.split_queries({rows, dim, from.data(), stride, queries.data()});
      each.kernels.split_keys({rows, dim, from.data(), stride, keys.data()});
      each.kernels.split_values({rows, dim, from.data(), stride, values.data()});
      each.kernels.split_turned({rows, dim, from.data(), stride, turned.data()});
      for (Index i = 0; i < padded(rows); ++i) {
        for (Index d = 0; d < dim; ++d) {
          const Index half = d % 32 / 16, pair = d % 16, tile = tile_size;
          const float in_queries = sum_of_pieces(queries, i * dim + d / 32 * 32 + 2 * pair + half, 32);
          const float in_keys =
              sum_of_pieces(keys, ((i / 16 * (dim / 32) + d / 32) * 16 + pair) * 32 + i % 16 * 2 + half, tile);
          const float in_values = sum_of_pieces(
              values, ((i / 32 * (dim / 16) + d / 16) * 16 + i % 16) * 32 + d % 16 * 2 + i / 16 % 2, tile);
          const float in_turned = sum_of_pieces(turned, d * padded(rows) + i / 32 * 32 + 2 * (i % 16) + i / 16 % 2, 32);
          const float want = i < rows ? from[at(i * stride + d)] : 0;
          for (const float got : {in_queries, in_keys, in_values, in_turned}) {
            if (std::isnan(want)) {
              ASSERT_TRUE(std::isnan(got));
            } else {
              ASSERT_EQ(got, want) << i << " " << d;
            }
          }
        }
      }
    }
  }
}

TEST(AmxOperands, PackedKeysAndValuesHoldEveryNumberInItsPlaceAndZerosElsewhere) {
  for (Index cols : {1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 129}) {
    for (Index dim : {32, 96}) {
      const Index stride = dim + 3;
      std::vector<Bfloat16> rows(at(cols * stride));
      std::vector<float> wide(rows.size());
      Random random(static_cast<std::uint64_t>(cols * dim));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        wide[i] = static_cast<float>(random.uniform(-1, 1));
        rows[i] = Bfloat16(wide[i]);
      }
      const std::size_t size = at(padded(cols) * dim);
      std::vector<Bfloat16> keys(size), values(size), rounded(size);
      pack_keys(cols, dim, rows.data(), stride, keys.data());
      pack_values(cols, dim, rows.data(), stride, values.data());
      for (Index j = 0; j < padded(cols); ++j) {
        for (Index d = 0; d < dim; ++d) {
          const Bfloat16 want = j < cols ? rows[at(j * stride + d)] : Bfloat16();
          const Index in_keys = ((j / 16 * (dim / 32) + d / 32) * 16 + d % 32 / 2) * 32 + j % 16 * 2 + d % 2;
          const Index in_values = ((j / 32 * (dim / 16) + d / 16) * 16 + j % 16) * 32 + d % 16 * 2 + j / 16 % 2;
          ASSERT_EQ(keys[at(in_keys)].bits, want.bits) << j << " " << d;
          ASSERT_EQ(values[at(in_values)].bits, want.bits) << j << " " << d;
        }
      }
      const auto same = [](Bfloat16 x, Bfloat16 y) { return x.bits == y.bits; };
      pack_keys(cols, dim, wide.data(), stride, rounded.data());
      EXPECT_TRUE(std::equal(keys.begin(), keys.end(), rounded.begin(), same));
      pack_values(cols, dim, wide.data(), stride, rounded.data());
      EXPECT_TRUE(std::equal(values.begin(), values.end(), rounded.begin(), same));
    }
  }
}

TEST(AmxOperands, NarrowedNumbersAreNearestAndInTheirPlaces) {
  const Index rows = 45, cols = 64, stride = 70;
  std::vector<float> from(at(rows * stride));
  Random random(31);
  for (float& x : from) x = static_cast<float>(random.uniform(-1, 1));
  from[0] = std::bit_cast<float>(0xFFFFFFFFu);  // no addition may make it a number
  from[1] = infinity, from[2] = -infinity, from[3] = 0x1p-127f;
  from[4] = 1 + 0x1p-8f, from[5] = -1 - 0x1p-8f;  // halfway, and up in size
  for (const Named& each : all_kernels()) {
    SCOPED_TRACE(each.name);
    std::vector<Bfloat16> by_row(at(padded(rows) * cols)), by_pair(by_row.size());
    const Narrowing narrowing{.rows = rows,
                              .cols = cols,
                              .from = from.data(),
                              .stride = stride,
                              .scale = 0.5f,
                              .by_row = by_row.data(),
                              .by_pair = by_pair.data()};
    each.kernels.narrow(narrowing);
    for (Index i = 0; i < padded(rows); ++i) {
      for (Index j = 0; j < cols; ++j) {
        const Bfloat16 row = by_row[at(i * cols + j / 32 * 32 + 2 * (j % 16) + j / 16 % 2)];
        const Bfloat16 pair =
            by_pair[at(((i / 32 * (cols / 16) + j / 16) * 16 + i % 16) * 32 + 2 * (j % 16) + i / 16 % 2)];
        ASSERT_EQ(row.bits, pair.bits) << i << " " << j;
        const float x = i < rows ? from[at(i * stride + j)] / 2 : 0, got = static_cast<float>(row);
        if (std::isnan(x)) {
          ASSERT_TRUE(std::isnan(got));
        } else if (std::abs(x) < 0x1p-126f || std::isinf(x)) {
          ASSERT_EQ(got, std::isinf(x) ? x : 0);
        } else {
          ASSERT_LE(std::abs(got - x), 0x1p-8f * std::abs(x)) << i << " " << j;
        }
      }
    }
    EXPECT_EQ(static_cast<float>(by_row[8]), 0.5f + 0x1p-8f);
    EXPECT_EQ(static_cast<float>(by_row[10]), -0.5f - 0x1p-8f);
  }
}

TEST(AmxOperands, NarrowedNumbersInPiecesAddUpToThem) {
  const Index rows = 45, cols = 64, stride = 70;
  std::vector<float> from(at(rows * stride));
  Random random(33);
  for (float& x : from) x = static_cast<float>(random.uniform(-1, 1));
  for (const Named& each : all_kernels()) {
    SCOPED_TRACE(each.name);
    std::vector<Bfloat16> by_row(at(padded(rows) * cols * float_pieces)), by_pair(by_row.size());
    each.kernels.narrow({.pieces = float_pieces,
                         .rows = rows,
                         .cols = cols,
                         .from = from.data(),
                         .stride = stride,
                         .scale = 0.3f,
                         .by_row = by_row.data(),
                         .by_pair = by_pair.data()});
    for (Index i = 0; i < padded(rows); ++i) {
      for (Index j = 0; j < cols; ++j) {
        const float row = sum_of_pieces(by_row, i * cols + j / 32 * 32 + 2 * (j % 16) + j / 16 % 2, 32);
        const float pair = sum_of_pieces(
            by_pair, ((i / 32 * (cols / 16) + j / 16) * 16 + i % 16) * 32 + 2 * (j % 16) + i / 16 % 2, tile_size);
        const float want = i < rows ? 0.3f * from[at(i * stride + j)] : 0;
        ASSERT_EQ(row, want) << i << " " << j;
        ASSERT_EQ(pair, want) << i << " " << j;
      }
    }
  }
}

/// Numbers of bfloat16 exactly; those of float by 2^-26 of each product, and both by float's sums of 96 products
/// below 1.
void expect_products(int pieces) {
  const Index rows = 64, cols = 96, depth = 96, c_stride = 101;
  Random random(32);
  std::vector<float> a(at(rows * depth)), b(at(cols * depth));
  for (auto* x : {&a, &b}) {
    for (float& number : *x) {
      number = static_cast<float>(random.uniform(-1, 1));
      if (pieces == 1) number = static_cast<float>(Bfloat16(number));
    }
  }
  for (const bool add : {false, true}) {
    std::vector<float> plain;
    for (const Named& each : all_kernels()) {
      SCOPED_TRACE(each.name);
      const Packing pack{&each.kernels, pieces};
      std::vector<Bfloat16> left(at(pack.room(rows * depth))), right(at(pack.room(cols * depth)));
      pack.queries(rows, depth, a.data(), depth, left.data());
      pack.keys(cols, depth, b.data(), depth, right.data());  // b [cols, depth]
      std::vector<float> c(at(rows * c_stride), 3.0f);
      each.kernels.multiply({.pieces = pieces,
                             .rows = rows,
                             .cols = cols,
                             .depth = depth,
                             .a = left.data(),
                             .a_stride = depth,
                             .b = right.data(),
                             .b_column = depth / 32 * tile_size,
                             .b_depth = tile_size,
                             .c = c.data(),
                             .c_stride = c_stride,
                             .add = add});
      each.kernels.scale(rows, cols, 0.25f, c.data(), c_stride);
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < c_stride; ++j) {
          double want = add || j >= cols ? 3 : 0;
          for (Index d = 0; j < cols && d < depth; ++d) {
            want += static_cast<double>(a[at(i * depth + d)]) * b[at(j * depth + d)];
          }
          ASSERT_NEAR(c[at(i * c_stride + j)], j < cols ? want / 4 : want, 1e-6) << i << " " << j;
        }
      }
      if (plain.empty()) plain = c;
      EXPECT_EQ(std::memcmp(c.data(), plain.data(), c.size() * sizeof(float)), 0);
    }
  }
}

TEST(AmxOperands, ProductsAndScalesOfWholeTiles) {
  expect_products(1);
  expect_products(float_pieces);
}

}  // namespace
}  // namespace bearing::attend::amx
