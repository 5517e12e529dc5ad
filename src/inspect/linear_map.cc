#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/inspect.hpp>
#include <cmath>
#include <limits>

#include "tensor_checks.hpp"
#include "text.hpp"

// The least-squares map from rows to later rows, by Gram and Schmidt with the largest column first. Slow pairs of a
// sinusoidal encoding hardly move over the rows, so columns are nearly dependent: what is left of a column below a
// tolerance is rounding, and does not enter the map. Rows that judge lie between those that were fitted: beyond them
// slow pairs would have to be guessed.

namespace bearing::inspect {

using text::concat;

namespace {

using Column = std::vector<double>;

double product(const Column& x, const Column& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

void subtract(Column& from, double times, const Column& what) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= times * what[i];
}

/// What the columns of A are made of: A = Q R with orthonormal columns of Q, over the columns that were taken.
struct Basis {
  std::vector<Column> q;             // [rank]
  std::vector<Column> r;             // [rank][dim]: A's column c is Σ_t r[t][c] q[t]
  std::vector<std::size_t> columns;  // [rank]: which column gave q[t]
};

Basis orthonormal(std::vector<Column> rest) {
  Basis basis;
  const std::size_t dim = rest.size();
  double largest = 0;
  for (const Column& column : rest) largest = std::max(largest, product(column, column));
  // A column that is a combination of others keeps about dim · 2^-52 of its norm as rounding: squared, with a margin.
  const double negligible = largest * 0x1p-90 * static_cast<double>(dim * dim);
  for (std::size_t t = 0; t < std::min(dim, rest.empty() ? 0 : rest[0].size()); ++t) {
    std::size_t best = 0;
    for (std::size_t c = 1; c < dim; ++c) {
      if (product(rest[c], rest[c]) > product(rest[best], rest[best])) best = c;
    }
    const double norm2 = product(rest[best], rest[best]);
    if (!(norm2 > negligible)) break;
    Column q = rest[best];
    for (const Column& earlier : basis.q) subtract(q, product(q, earlier), earlier);  // again: rounding of the first
    const double norm = std::sqrt(product(q, q));
    for (double& value : q) value /= norm;
    Column r(dim);
    for (std::size_t c = 0; c < dim; ++c) {
      r[c] = product(rest[c], q);
      subtract(rest[c], r[c], q);
    }
    basis.q.push_back(std::move(q));
    basis.r.push_back(std::move(r));
    basis.columns.push_back(best);
  }
  return basis;
}

/// x with A x ≈ b, zero where a column was not taken.
Column solve(const Basis& basis, const Column& b, std::size_t dim) {
  Column x(dim);
  for (std::size_t t = basis.q.size(); t-- > 0;) {
    double sum = product(basis.q[t], b);
    for (std::size_t later = t + 1; later < basis.q.size(); ++later) {
      sum -= basis.r[t][basis.columns[later]] * x[basis.columns[later]];
    }
    x[basis.columns[t]] = sum / basis.r[t][basis.columns[t]];
  }
  return x;
}

/// The largest |row p · map − row p + offset| for p = first, first + 2, …; rows of the map that are not `taken` are 0.
double worst(View<const double, 2> rows, Index offset, const Array& map, const std::vector<std::size_t>& taken,
             Index first) {
  double most = first + offset < rows.shape[0] ? 0 : std::numeric_limits<double>::quiet_NaN();
  const Index dim = rows.shape[1];
  Column difference(static_cast<std::size_t>(dim));
  for (Index p = first; p + offset < rows.shape[0]; p += 2) {
    for (Index c = 0; c < dim; ++c) difference[static_cast<std::size_t>(c)] = -rows(p + offset, c);
    for (const std::size_t d : taken) {
      const double x = rows(p, static_cast<Index>(d));
      const double* row = map.values.data() + d * difference.size();
      for (std::size_t c = 0; c < difference.size(); ++c) difference[c] += x * row[c];
    }
    most = std::max(most, std::sqrt(product(difference, difference)));
  }
  return most;
}

/// Column d of the rows first, first + 2, …, below `end`.
Column every_other(View<const double, 2> rows, Index d, Index first, Index end) {
  Column column;
  for (Index p = first; p < end; p += 2) column.push_back(rows(p, d));
  return column;
}

}  // namespace

LinearMap shift_map(View<const double, 2> rows, Index offset) {
  const Index time = rows.shape[0], dim = rows.shape[1];
  if (offset < 0 || offset >= time) {
    throw ShapeError(concat("[shift_map] offset: must be from 0 to ", time - 1, ", the last row, got ", offset,
                            "; shape is ", rows.shape));
  }
  check_tensor("shift_map", "rows", rows);
  std::vector<Column> columns;
  for (Index d = 0; d < dim; ++d) columns.push_back(every_other(rows, d, 0, time - offset));
  const Basis basis = orthonormal(std::move(columns));
  std::vector<std::size_t> taken;  // in rising order
  for (std::size_t d = 0; d < static_cast<std::size_t>(dim); ++d) {
    if (std::count(basis.columns.begin(), basis.columns.end(), d) > 0) taken.push_back(d);
  }
  LinearMap result{.map = Array(1, dim, dim), .rank = static_cast<Index>(basis.q.size())};
  for (Index c = 0; c < dim; ++c) {
    const Column x = solve(basis, every_other(rows, c, offset, time), static_cast<std::size_t>(dim));
    for (Index d = 0; d < dim; ++d) result.map(0, d, c) = x[static_cast<std::size_t>(d)];
  }
  result.fitted = worst(rows, offset, result.map, taken, 0);
  result.held_out = worst(rows, offset, result.map, taken, 1);
  return result;
}

std::array<double, 4> pair_shift_map(double frequency, double offset) {
  const double c = std::cos(frequency * offset), s = std::sin(frequency * offset);
  return {c, s, -s, c};
}

}  // namespace bearing::inspect
