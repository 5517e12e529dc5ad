#pragma once

#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>
#include <bearing/rope_report.hpp>
#include <bearing/view.hpp>
#include <cstdint>
#include <vector>

// What an encoding does, in numbers: similarity of positions, decay with distance, the linear map from a position to a
// later one, bucket maps, correlations of words and positions. Everything is measured from rows and curves, whatever
// encoding they come from. Wavelengths: <bearing/rope_report.hpp>; bias matrices: <bearing/scores.hpp>; the encodings
// themselves behind one interface: <bearing/catalog.hpp>; checks with verdicts: <bearing/properties.hpp>.

namespace bearing::inspect {

/// Numbers [heads, rows, cols], row-major. heads is 1 for what belongs to no head.
struct Array {
  std::array<Index, 3> shape{};
  std::vector<double> values;

  Array() = default;
  Array(Index heads, Index rows, Index cols)
      : shape{heads, rows, cols}, values(static_cast<std::size_t>(heads * rows * cols)) {}

  double& operator()(Index h, Index i, Index j) {
    return values[static_cast<std::size_t>((h * shape[1] + i) * shape[2] + j)];
  }
  double operator()(Index h, Index i, Index j) const { return const_cast<Array&>(*this)(h, i, j); }
  View<const double, 2> head(Index h) const {
    return {values.data() + h * shape[1] * shape[2], {shape[1], shape[2]}, {shape[2], 1}};
  }
};

/// How alike two rows are.
struct Similarity {
  double dot = 0;       ///< x · y
  double cosine = 0;    ///< x · y / (|x| |y|); 0 if one of them is 0
  double distance = 0;  ///< |x − y|
};

/// Throws ShapeError unless both have the same length.
BEARING_EXPORT Similarity similarity(View<const double, 1> x, View<const double, 1> y);

/// x_i · y_j of every two rows: [1, rows of x, rows of y]. Throws ShapeError unless the rows are of one length.
BEARING_EXPORT Array products(View<const double, 2> x, View<const double, 2> y);

/// a² Σ_i cos(kθ_i) for k = 0 … length − 1: the product of a query and an equal key k tokens away, all of whose pairs
/// have norm 1, under a rotary encoding. For sinusoidal encodings it is the product of two positions k apart.
/// Frequencies of several axes turn together, as they do for text. Throws RangeError for a length below 0 or past 2^31.
BEARING_EXPORT std::vector<double> rotation_similarity(const RopeFrequencies& frequencies, Index length);

/// A curve over distances 0, 1, 2, …, and how its maxima fall.
struct Decay {
  std::vector<double> curve;
  std::vector<double> envelope;  ///< max of the curve from here on: it never rises
  /// The curve's maximum over distances [2^j, 2^(j+1)), j = 0, 1, …; the curve may end within the last octave.
  std::vector<double> octaves;
  Index rises = 0;     ///< steps k ≥ 1 with curve[k] > curve[k − 1]
  Index negative = 0;  ///< distances k ≥ 1 with curve[k] < 0
  /// No octave reaches higher than the one before it, and the last lies below curve[0] and below the first.
  bool decays = false;
};

/// Throws RangeError for a curve with NaN.
BEARING_EXPORT Decay decay(std::vector<double> curve);

/// A linear map, fitted: y = x · map, so that map is M_φ transposed.
struct LinearMap {
  Array map;            ///< [1, dim, dim]
  Index rank = 0;       ///< of the rows that it was fitted to
  double fitted = 0;    ///< the largest |x · map − y| of those rows
  double held_out = 0;  ///< the same of rows that it was not fitted to; NaN if there are none
};

/// The linear map from the row at p to the row at p + offset, one for all p: fitted to even p by least squares with
/// column pivoting, and tried on odd p. rows [time, dim]: row p is PE(p). A fit of few rows is always exact, so only a
/// small `held_out` shows that there is such a map. Throws ShapeError unless 0 ≤ offset < time, or for rows without
/// memory.
BEARING_EXPORT LinearMap shift_map(View<const double, 2> rows, Index offset);

/// M_φ of one pair in closed form: (sin, cos)(p + φ) = M_φ · (sin, cos)(p), [[cos ωφ, sin ωφ], [−sin ωφ, cos ωφ]].
BEARING_EXPORT std::array<double, 4> pair_shift_map(double frequency, double offset);

/// Neighbours with the same value: distances first … last, both included.
struct Run {
  Index first = 0, last = 0;
  double value = 0;
  bool operator==(const Run&) const = default;
};

/// The bucket map of a bias: the runs of equal values. `values` are those at distances first, first + 1, ….
BEARING_EXPORT std::vector<Run> runs(View<const double, 1> values, Index first);

/// The four parts of (w_i + p_i) W_q · (w_j + p_j) W_k that TUPE draws apart (Ke, He, Liu 2021, arXiv 2006.15595,
/// figure 2): [1, time, time] each, row i the query's.
struct Correlations {
  Array word_word, word_position, position_word, position_position;
};

/// words and positions [time, dim]; w_q and w_k [dim, head_dim], both empty (null data) for the identity. Throws
/// ShapeError for shapes that do not fit each other.
BEARING_EXPORT Correlations correlations(View<const double, 2> words, View<const double, 2> positions,
                                         View<const double, 2> w_q = {}, View<const double, 2> w_k = {});

/// Seeded numbers with mean 0 and variance 1 (sums of twelve uniform ones, less six: at most 6 in size), the same on
/// every machine.
class BEARING_EXPORT Normal {
 public:
  explicit Normal(std::uint64_t seed) : state_(seed) {}
  double operator()();
  /// A number in [0, 1), by splitmix64; any seed is allowed, 0 too.
  double uniform() {
    state_ += step;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>(static_cast<std::int64_t>((z ^ (z >> 31)) >> 11)) * 0x1p-53;
  }
  /// Skips the next `count` numbers.
  void skip(Index count) { state_ += 12 * static_cast<std::uint64_t>(count) * step; }
  Array array(Index heads, Index rows, Index cols);

 private:
  static constexpr std::uint64_t step = 0x9E3779B97F4A7C15u;
  std::uint64_t state_;
};

}  // namespace bearing::inspect
