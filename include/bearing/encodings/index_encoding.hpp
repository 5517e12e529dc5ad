#pragma once

#include <bearing/rows.hpp>

// The simplest encodings. They have the faults that the others avoid; they are here for comparison.
//
//     index        x_p ← x_p + p                  grows without bound
//     normalised   x_p ← x_p + p/(length − 1)     the same number means another place at another length
//     binary       x_p ← x_p + bits of p          bounded and unique, but neighbours may differ in every bit

namespace bearing {

enum class IndexForm { index, normalised, binary };

struct IndexEncoding {
  Index dim = 0;
  Required<IndexForm> form;
  Index length = 0;  ///< normalised only: positions 0 … length − 1 become 0 … 1
  bool operator==(const IndexEncoding&) const = default;
};

/// index and normalised put the same number in every column; binary puts bit d of p, 0 or 1, in column d. Positions may
/// be real numbers, except for binary. It has no parameters.
template <class A>
class BEARING_EXPORT IndexInputs {
 public:
  using Arithmetic = A;
  static constexpr bool constant = true;

  /// Throws ShapeError for dim < 1, RangeError for a length below 2 (normalised) or other than 0 (index, binary).
  explicit IndexInputs(const IndexEncoding& spec);

  Index dim() const { return spec_.dim; }
  /// binary: RangeError for a position that is not whole or not in [0, 2^dim).
  void check(const char* function, const Problem& problem) const;
  void inputs(const RowTile& tile, A* p) const;

 private:
  IndexEncoding spec_;
};

}  // namespace bearing
