#pragma once

#include <bearing/properties.hpp>
#include <limits>
#include <string>

// What the property checks look at: an example of the encoding, and what it makes of positions.

namespace bearing::inspect {

/// The number of a check that has none.
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// RangeError, which names the function, unless heads, dim and length are sizes that an example may have.
void check_sizes(const char* function, const SpecimenOptions& options);

/// An example with content drawn from its seed.
struct Probe {
  Probe(const Description& entry, const SpecimenOptions& options);

  Specimen specimen;
  bool input_only = false;  ///< acts on the input and nowhere else
  bool score_only = false;  ///< does not touch rows
  bool by_place = false;    ///< scores are of the two places, not of their distance

  const SpecimenOptions& options() const { return specimen.options; }
  /// `count` tokens with the same content: rows of [heads, count, dim]. Zero for encodings of the input alone, so that
  /// products are those of positions; `which` tells contents apart.
  Array alike(Index count, std::uint64_t which = 0) const;
  /// `count` tokens, each with content of its own.
  Array various(Index count, std::uint64_t which = 0) const;
  /// Rows from, from + 1, … of various(count).
  Array various(Index count, Index from, Index rows) const;
  /// How many of `count` rows to look at at once.
  Index block(Index count) const;
  /// The longest walk in which position t is t steps from position 0: the length, or a row of an image's grid.
  Index line() const { return specimen.line(); }
};

/// Positions (of a bias: distances, or places of keys) first … first + count − 1.
struct Walk {
  Index first = 0, count = 0;
};

/// What position first + from + r of the walk becomes, in row r of [1, rows, features]: p(i) for the input, the same
/// query or key turned, the scores of a query for keys that are alike. What the encoding does not have is left out; an
/// array without features: it does nothing.
Array values_at(const Probe& probe, const Walk& walk, Index from, Index rows);

/// The whole walk at once.
Array values_at(const Probe& probe, Index first, Index count);

/// The size of what values_at() holds: the norm of p(i), by how much a row's norm is multiplied, the largest score.
double magnitude(const Probe& probe, Index first, Index count, const Executor& on = {});

/// x in the logits' product: T(x + p).
Array placed(const Specimen& specimen, Side side, const Tokens& at, Array x, const Executor& on = {});

/// As the public one, with a curve for each of `towards`: what they share is done once.
std::vector<Array> mean_scores(const Specimen& specimen, Index draws, Contents contents,
                               const std::vector<Keys>& towards, const Executor& on);

/// The largest |x − y| over |i − j| ≥ 0 scores that count (keys up to the query if causal), and the largest |x|.
struct Change {
  double most = 0, scale = 0;
  double relative() const { return scale > 0 ? most / scale : most; }
};
Change change(const Array& x, const Array& y, bool causal);

double row_norm(View<const double, 2> rows, Index i);

/// 0.000123 → "1.2e-04"; whole numbers below 10^6 as they are.
std::string brief(double number);

/// Numbers of an example, at lengths 64, 256 and 1024.
struct Counts {
  std::array<Index, 3> parameters{}, held{};
};

/// The examples that several checks look at, each made once.
struct Examples {
  Probe probe;
  std::vector<Specimen> other_seeds;  ///< of the two seeds that follow, where something is learned
  Counts counts;

  Examples(const Description& entry, const SpecimenOptions& options, const Executor& on);
};

// The checks; each measures one property.
Property check_unique(const Probe& probe, const Executor& on);
Property check_relative(const Probe& probe);
Property check_decay(const Examples& examples, const Executor& on);
Property check_extensible(const Probe& probe, const Executor& on);
Property check_deterministic(const Description& entry, const Probe& probe);
Property check_bounded(const Probe& probe, const Executor& on);
Property check_norm(const Probe& probe, const Executor& on);
Property check_symmetric(const Probe& probe);
Property check_shift_map(const Probe& probe);
Property check_parameters(const Examples& examples);
Property check_memory(const Examples& examples);

/// What happens past the length.
struct PastLength {
  std::string what;  ///< "error", "clamped", "seen values", "unseen values", "nothing"
  std::string evidence;
  double unseen = 0;  ///< the share of features that take values outside those seen within the length
};
PastLength past_length(const Probe& probe, const Executor& on = {});

}  // namespace bearing::inspect
