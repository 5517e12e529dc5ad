#pragma once

#include <bearing/catalog.hpp>
#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/figures.hpp>
#include <functional>
#include <string>
#include <vector>

// Properties of encodings, measured on examples: every verdict comes with its evidence.

namespace bearing::inspect {

enum class Verdict {
  yes,
  no,
  partly,          ///< the evidence says how far
  learned,         ///< depends on what training learns, and the example's numbers are drawn at random
  not_applicable,  ///< the encoding does nothing that the question is about
};

BEARING_EXPORT const char* name(Verdict verdict);

struct Property {
  std::string name;
  Verdict verdict;
  std::string evidence;  ///< one sentence with numbers
  double number;         ///< the one that decided; NaN if none did
};

/// All properties of one encoding, in a fixed order:
///
///     unique                  no two positions (for a bias: no two distances) have the same value in float32
///     relative                logits stay the same when all positions move by the same amount
///     decay                   the maxima over octaves of distance fall, on both sides unless it is causal
///     extensible              what positions past the length give: error, clamped, seen values, or unseen values
///     deterministic           a second call gives the same bits, and so does an executor that cuts the work otherwise
///     bounded                 values do not grow past the length
///     norm                    rows keep their norm
///     symmetric               a key after the query gets the same as one as far before it
///     shift map               PE(p + φ) is one linear map of PE(p) for all p
///     parameters              what training learns: how many numbers, and how they grow with the length
///     memory                  numbers that stay in memory, and how they grow with the length
///
/// Of an encoding with its own numbers (with_numbers()) none is drawn and none is made up for another length: no
/// verdict is `learned`, and the last two say how many numbers there are and at how many tokens they end.
///
/// The work runs on `on`; results are the same for every executor. `begins`, if given, is called on the calling thread
/// before each step, with its name: "examples", then the names above. Throws what make() throws for options that the
/// encoding cannot serve, and RangeError for heads·dim·length above 2^24.
BEARING_EXPORT std::vector<Property> check(const Description& entry, const SpecimenOptions& options = {},
                                           const Executor& on = {},
                                           const std::function<void(const char* step)>& begins = {});

/// How a count grows with the length L, from the counts at a length, at four times and at sixteen times that length:
/// "O(1)", "O(log L)", "O(sqrt L)", "O(L)", "O(L^2)", else "grows".
BEARING_EXPORT std::string growth(Index at_length, Index at_fourfold, Index at_sixteenfold);

/// A row of the comparison of encodings.
struct Comparison {
  std::string name, sites;
  bool learnable = false;
  Verdict extensible, relative, decay;
  std::string past_length;  ///< "error", "clamped", "seen values", "unseen values"
  /// How the numbers that stay in memory grow with the length; of own numbers that end, "ends at N", in tokens.
  std::string memory;
  Index parameters = 0;
  Index length = 0;          ///< tokens that were measured: of an image whole rows of its grid
  bool own_numbers = false;  ///< the caller's numbers were measured, such as a trained model's, and none was drawn
};
/// Throws as check().
BEARING_EXPORT Comparison compare(const Description& entry, const SpecimenOptions& options = {},
                                  const Executor& on = {});

/// Something that is often said of an encoding, and what was measured.
struct Claim {
  std::string encoding;
  std::string says;
  Verdict holds;
  std::string measured;
  double number = 0;
  Picture picture = {};  ///< that shows it; its kind is empty where none does
  /// What models of the lab did that were trained with it, with the page that says how; empty where none was asked.
  std::string trained = {};
};

/// Measures all of them, in the catalog's order.
BEARING_EXPORT std::vector<Claim> claims(const Executor& on = {});

/// Those about one encoding; none for most.
BEARING_EXPORT std::vector<Claim> claims(const std::string& encoding, const Executor& on = {});

}  // namespace bearing::inspect
