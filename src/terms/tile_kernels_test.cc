#include "terms/tile_kernels.hpp"

#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include <vector>

#include "support/edge.hpp"
#include "support/random.hpp"
#include "support/targets.hpp"

// Every kernel against the loop that its comment states, at sizes around vectors, panels and runs, in rows with gaps
// whose contents must stay as they were.

namespace bearing::tiles {
namespace {

using test::on_every_target;
using test::Random;

constexpr Index gap = 3;
constexpr double guard = -77;

/// Rows of numbers with a gap behind each, and before the first.
template <class A>
struct Rows {
  Rows(Index n, Index cols, Random& random) : count(n), width(cols) {
    memory.assign(static_cast<std::size_t>(gap + n * stride()), A(guard));
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < cols; ++j) at(i, j) = static_cast<A>(random.uniform(-1, 1));
    }
  }
  Index stride() const { return width + gap; }
  A* data() { return memory.data() + gap; }
  A& at(Index i, Index j) { return memory[static_cast<std::size_t>(gap + i * stride() + j)]; }
  A at(Index i, Index j) const { return memory[static_cast<std::size_t>(gap + i * stride() + j)]; }
  void expect_gaps() const {
    for (Index x = 0; x < gap; ++x) EXPECT_EQ(memory[static_cast<std::size_t>(x)], A(guard));
    for (Index i = 0; i < count; ++i) {
      for (Index x = width; x < stride(); ++x) EXPECT_EQ(at(i, x), A(guard));
    }
  }

  Index count, width;
  std::vector<A> memory;
};

struct Extents {
  Index m, n, dim;
};
const std::vector<Extents> extents = {{1, 1, 1},  {1, 37, 6},   {3, 70, 19},  {37, 1, 33}, {4, 4, 0},
                                      {5, 3, 64}, {64, 33, 64}, {11, 65, 17}, {9, 7, 300}, {131, 67, 5}};

/// What n products in A may be off by: each of them and each sum rounds once, of numbers below 1.
template <class A>
double rounding(Index n) {
  return static_cast<double>(n + 2) * static_cast<double>(n + 2) * (sizeof(A) == 4 ? 0x1p-24 : 0x1p-53);
}

template <class A>
void expect_products() {
  const A alpha = A(0.75);
  for (const auto& [m, n, dim] : extents) {
    SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << dim);
    Random random(5);
    Rows<A> a(m, dim, random), b(n, dim, random), c(m, n, random);
    const Rows<A> a0 = a, b0 = b, c0 = c;

    multiply_nt<A>(m, n, dim, alpha, a.data(), a.stride(), b.data(), b.stride(), c.data(), c.stride());
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < n; ++j) {
        double sum = 0;
        for (Index x = 0; x < dim; ++x) sum += static_cast<double>(a0.at(i, x)) * static_cast<double>(b0.at(j, x));
        ASSERT_NEAR(static_cast<double>(c.at(i, j)), 0.75 * sum, rounding<A>(dim));
      }
    }
    c.expect_gaps();

    Rows<A> c1 = c0;
    add_multiply_nn<A>(m, n, dim, alpha, c1.data(), c1.stride(), b.data(), b.stride(), a.data(), a.stride());
    for (Index i = 0; i < m; ++i) {
      for (Index x = 0; x < dim; ++x) {
        double sum = 0;
        for (Index j = 0; j < n; ++j) sum += static_cast<double>(c0.at(i, j)) * static_cast<double>(b0.at(j, x));
        ASSERT_NEAR(static_cast<double>(a.at(i, x)), static_cast<double>(a0.at(i, x)) + 0.75 * sum, rounding<A>(n));
      }
    }
    a.expect_gaps();

    a = a0;
    add_multiply_tn<A>(m, n, dim, alpha, c1.data(), c1.stride(), a.data(), a.stride(), b.data(), b.stride());
    for (Index j = 0; j < n; ++j) {
      for (Index x = 0; x < dim; ++x) {
        double sum = 0;
        for (Index i = 0; i < m; ++i) sum += static_cast<double>(c0.at(i, j)) * static_cast<double>(a0.at(i, x));
        ASSERT_NEAR(static_cast<double>(b.at(j, x)), static_cast<double>(b0.at(j, x)) + 0.75 * sum, rounding<A>(m));
      }
    }
    b.expect_gaps();
  }
}

TEST(TileKernels, ProductsAreTheLoopsOnEveryTarget) {
  on_every_target([] {
    expect_products<float>();
    expect_products<double>();
  });
}

TEST(TileKernels, ProductsTakeRowsInFallingOrder) {
  on_every_target([] {
    Random random(6);
    const Index m = 9, n = 21, dim = 13;
    Rows<float> a(m, dim, random), b(n, dim, random), falling = b, c(m, n, random), d = c;
    for (Index j = 0; j < n; ++j) std::memcpy(&falling.at(n - 1 - j, 0), &b.at(j, 0), dim * sizeof(float));
    multiply_nt<float>(m, n, dim, 1, a.data(), a.stride(), b.data(), b.stride(), c.data(), c.stride());
    multiply_nt<float>(m, n, dim, 1, a.data(), a.stride(), &falling.at(n - 1, 0), -falling.stride(), d.data(),
                       d.stride());
    EXPECT_EQ(c.memory, d.memory);
  });
}

TEST(TileKernels, AnInfinityStaysInItsElement) {
  // Panels are padded with zeros: nothing of that may meet an infinity and come back as NaN.
  on_every_target([] {
    Random random(8);
    Rows<float> a(5, 7, random), b(9, 7, random), c(5, 9, random);
    b.at(4, 3) = INFINITY;
    multiply_nt<float>(5, 9, 7, 1, a.data(), a.stride(), b.data(), b.stride(), c.data(), c.stride());
    for (Index i = 0; i < 5; ++i) {
      for (Index j = 0; j < 9; ++j) EXPECT_EQ(std::isinf(c.at(i, j)), j == 4);
    }
  });
}

template <class A>
void expect_toeplitz() {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {1, 40}, {17, 3}, {31, 67}}) {
    Random random(9);
    Rows<A> s(rows, cols, random);
    const Rows<A> s0 = s;
    std::vector<A> diagonals(static_cast<std::size_t>(rows + cols - 1));
    for (A& x : diagonals) x = static_cast<A>(random.uniform(-1, 1));
    const auto diagonal = [rows = rows](Index i, Index j) { return static_cast<std::size_t>(j - i + rows - 1); };

    add_toeplitz<A>(rows, cols, diagonals.data(), s.data(), s.stride());
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) ASSERT_EQ(s.at(i, j), s0.at(i, j) + diagonals[diagonal(i, j)]);
    }
    s.expect_gaps();
    for (const bool stream : {false, true}) {
      s = s0;
      put_toeplitz<A>(rows, cols, diagonals.data(), s.data(), s.stride(), stream);
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) ASSERT_EQ(s.at(i, j), diagonals[diagonal(i, j)]);
      }
      s.expect_gaps();
    }
    std::vector<A> sums = diagonals, wanted = diagonals;
    s = s0;
    sum_diagonals<A>(rows, cols, s.data(), s.stride(), sums.data());
    for (Index i = 0; i < rows; ++i) {  // row by row, as the kernel does: the same roundings
      for (Index j = 0; j < cols; ++j) wanted[diagonal(i, j)] += s.at(i, j);
    }
    EXPECT_EQ(sums, wanted);
  }
}

template <class A>
void expect_matrix() {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {17, 3}, {31, 67}}) {
    Random random(10);
    Rows<A> s(rows, cols, random), matrix(rows, cols, random);
    for (const Index stride : {matrix.stride(), Index{0}}) {  // a row of its own each, and one for all
      const Rows<A> s0 = s;
      add_matrix<A>(rows, cols, matrix.data(), stride, cols, s.data(), s.stride());
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) ASSERT_EQ(s.at(i, j), s0.at(i, j) + matrix.at(stride == 0 ? 0 : i, j));
      }
      s.expect_gaps();
    }
  }
}

TEST(TileKernels, MatricesAreAddedOnEveryTarget) {
  on_every_target([] {
    expect_matrix<float>();
    expect_matrix<double>();
  });
}

TEST(TileKernels, ToeplitzBiasesAreTheLoopsOnEveryTarget) {
  on_every_target([] {
    expect_toeplitz<float>();
    expect_toeplitz<double>();
  });
}

/// A tile's bands: within the table, clamped below, above, both ways, wholly beyond either end, cut off after, before
/// and on both sides.
std::vector<Band> bands(Index rows, Index cols) {
  const Index n = rows + cols - 1;
  return {{0, n, n},         {n / 3, n - n / 3, n},
          {0, n - n / 2, n}, {n / 4, std::max<Index>(n / 2, 1), n},
          {n, 1, n},         {-5, 1, n},
          {0, n, rows},      {n / 3, n - n / 3, 2},
          {n / 4, 1, n},     {0, 1, 0},
          {0, n, n, n / 2},  {n / 3, std::max<Index>(n / 3, 1), n - n / 4, n / 5},
          {n, 1, n, n / 2},  {0, 1, n, n}};
}

template <class A>
void expect_nothing_read_past(Index m, Index n, Index dim) {
  const auto numbers = [](Index count) { return std::vector<A>(static_cast<std::size_t>(count), A(0.5)); };
  test::AtTheEdge<A> a(numbers(m * dim)), b(numbers(n * dim)), c(numbers(m * n));
  multiply_nt<A>(m, n, dim, A(1), a.data(), dim, b.data(), dim, c.data(), n);
  add_multiply_nn<A>(m, n, dim, A(1), c.data(), n, b.data(), dim, a.data(), dim);
  add_multiply_tn<A>(m, n, dim, A(1), c.data(), n, a.data(), dim, b.data(), dim);
}

TEST(TileKernels, ReadNothingPastTheirRows) {
  on_every_target([] {
    for (const Index m : {1, 2, 5, 9}) {
      for (const Index n : {1, 2, 7, 33}) {
        for (const Index dim : {1, 2, 6, 17}) {
          expect_nothing_read_past<float>(m, n, dim);
          expect_nothing_read_past<double>(m, n, dim);
        }
      }
    }
  });
}

template <class A>
void expect_bands() {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {1, 40}, {19, 1}, {17, 3}, {31, 67}}) {
    for (const Band& band : bands(rows, cols)) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols << ", band " << band.low << ' ' << band.width << ' '
                                      << band.begin << ' ' << band.end);
      Random random(10);
      Rows<A> s(rows, cols, random), u(rows, band.width, random), w(cols, band.width, random);
      const Rows<A> s0 = s, u0 = u, w0 = w;
      const auto column = [&, r = rows](Index i, Index j) {
        return std::min(std::max<Index>(j - i + r - 1 - band.low, 0), band.width - 1);
      };
      const auto inside = [&, r = rows](Index i, Index j) {
        return j - i + r - 1 >= band.begin && j - i + r - 1 < band.end;
      };

      add_band<A>(rows, cols, band, u.data(), u.stride(), s.data(), s.stride());
      Rows<A> by_keys = s0;
      add_key_band<A>(rows, cols, band, w.data(), w.stride(), by_keys.data(), by_keys.stride());
      Rows<double> d_u(rows, band.width, random), d_w(cols, band.width, random);
      for (Index i = 0; i < rows; ++i) {
        for (Index c = 0; c < band.width; ++c) d_u.at(i, c) = static_cast<double>(u0.at(i, c));
      }
      for (Index j = 0; j < cols; ++j) {
        for (Index c = 0; c < band.width; ++c) d_w.at(j, c) = static_cast<double>(w0.at(j, c));
      }
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) {
          ASSERT_EQ(s.at(i, j), inside(i, j) ? s0.at(i, j) + u0.at(i, column(i, j)) : s0.at(i, j));
          ASSERT_EQ(by_keys.at(i, j), inside(i, j) ? s0.at(i, j) + w0.at(j, column(i, j)) : s0.at(i, j));
          if (!inside(i, j)) continue;
          d_u.at(i, column(i, j)) += static_cast<double>(s0.at(i, j));
          d_w.at(j, column(i, j)) += static_cast<double>(s0.at(i, j));
        }
      }
      s.expect_gaps();
      by_keys.expect_gaps();
      if (band.width == 1) {  // keys' products side by side
        std::vector<A> dense;
        for (Index j = 0; j < cols; ++j) dense.push_back(w0.at(j, 0));
        Rows<A> by_dense_keys = s0;
        add_key_band<A>(rows, cols, band, dense.data(), 1, by_dense_keys.data(), by_dense_keys.stride());
        EXPECT_EQ(by_dense_keys.memory, by_keys.memory);
      }

      s = s0;
      scatter_band<A>(rows, cols, band, s.data(), s.stride(), u.data(), u.stride());
      scatter_key_band<A>(rows, cols, band, s.data(), s.stride(), w.data(), w.stride());
      for (Index c = 0; c < band.width; ++c) {
        for (Index i = 0; i < rows; ++i) {
          ASSERT_NEAR(static_cast<double>(u.at(i, c)), d_u.at(i, c), rounding<A>(cols));
        }
        for (Index j = 0; j < cols; ++j) {
          ASSERT_NEAR(static_cast<double>(w.at(j, c)), d_w.at(j, c), rounding<A>(rows));
        }
      }
      u.expect_gaps();
      w.expect_gaps();
    }
  }
}

TEST(TileKernels, BandsAreGatheredAndScatteredByDistance) {
  on_every_target([] {
    expect_bands<float>();
    expect_bands<double>();
  });
}

template <class A>
void expect_packed_products() {
  const A alpha = A(0.75);
  const Index width = panel_width<A>();
  for (const auto& [m, n, dim] : extents) {
    SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << dim);
    const Index panels = (n + width - 1) / width;
    Random random(11);
    Rows<A> a(m, dim, random), b(n, dim, random), c(m, panels * width, random);
    std::vector<A> packed(static_cast<std::size_t>(panels * width * dim), A(guard));
    pack<A>(n, dim, b.data(), b.stride(), packed.data());
    multiply_packed<A>(m, panels, dim, alpha, a.data(), a.stride(), packed.data(), c.data(), c.stride());
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < panels * width; ++j) {
        double sum = 0;
        for (Index x = 0; x < dim && j < n; ++x)
          sum += static_cast<double>(a.at(i, x)) * static_cast<double>(b.at(j, x));
        ASSERT_NEAR(static_cast<double>(c.at(i, j)), 0.75 * sum, rounding<A>(dim));
      }
    }
    c.expect_gaps();
  }
}

TEST(TileKernels, PackedRowsAreMultipliedAsTheyStoodOnEveryTarget) {
  on_every_target([] {
    expect_packed_products<float>();
    expect_packed_products<double>();
  });
}

/// Columns that never fall: a row a diagonal, few rows, one row, and leaps that no vector spans.
std::vector<std::vector<std::int32_t>> columns_that_rise(Index n) {
  std::vector<std::vector<std::int32_t>> all(4, std::vector<std::int32_t>(static_cast<std::size_t>(n)));
  for (std::size_t x = 0; x < all[0].size(); ++x) {
    const auto at = static_cast<std::int32_t>(x);
    all[0][x] = at, all[1][x] = at / 3, all[2][x] = 0, all[3][x] = at / 5 * 41;
  }
  return all;
}

template <class A>
void expect_columns() {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {1, 40}, {19, 1}, {17, 3}, {31, 67}}) {
    for (const std::vector<std::int32_t>& column : columns_that_rise(rows + cols - 1)) {
      for (const Band& band : bands(rows, cols)) {
        SCOPED_TRACE(testing::Message() << rows << " x " << cols << ", " << column.back() << " columns, " << band.begin
                                        << " to " << band.end);
        const Index products = column.back() + 1 + panel_width<A>(), first = 2;
        Random random(12);
        Rows<A> s(rows, cols, random), u(rows, products, random), w(cols, products, random);
        std::vector<std::int32_t> later = column, falling(column.rbegin(), column.rend());
        for (std::int32_t& x : later) x += first;
        for (std::int32_t& x : falling) x = column.back() - x + static_cast<std::int32_t>(first);
        Rows<A> by_keys = s;
        const Rows<A> s0 = s;
        std::vector<A> room(static_cast<std::size_t>(2 * rows * cols));
        add_by_column<A>(rows, cols, band, later.data(), first, u.data(), u.stride(), s.data(), s.stride());
        add_by_key_column<A>(rows, cols, band, falling.data(), first, w.data(), w.stride(), by_keys.data(),
                             by_keys.stride(), room.data());
        for (Index i = 0; i < rows; ++i) {
          for (Index j = 0; j < cols; ++j) {
            const Index diagonal = j - i + rows - 1, c = column[static_cast<std::size_t>(diagonal)];
            const bool inside = diagonal >= band.begin && diagonal < band.end;
            ASSERT_EQ(s.at(i, j), inside ? s0.at(i, j) + u.at(i, c) : s0.at(i, j));
            ASSERT_EQ(by_keys.at(i, j), inside ? s0.at(i, j) + w.at(j, column.back() - c) : s0.at(i, j));
          }
        }
        s.expect_gaps();
        by_keys.expect_gaps();
      }
    }
  }
}

TEST(TileKernels, RowsThatDiagonalsShareAreGatheredByColumn) {
  on_every_target([] {
    expect_columns<float>();
    expect_columns<double>();
  });
}

}  // namespace
}  // namespace bearing::tiles
