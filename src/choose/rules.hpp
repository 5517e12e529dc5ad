#pragma once

#include <bearing/choose.hpp>
#include <span>

namespace bearing::inspect {

/// Tasks of a rule: bits.
enum Tasks : unsigned {
  generate = 1,
  understand = 2,
  translate = 4,
  images = 8,
  speech = 16,
  unordered = 32,
  ordered = 31,
  encoders = understand | images | speech,
};

enum class Length { as_trained, longer, either };
enum class Holds { yes, no, either };

/// A line of the table: where it applies, what it says and who says so. Texts may have {trained}, {reach}, {window},
/// {wanted}, {factor}, {span}.
struct Rule {
  unsigned tasks = ordered;
  Index axes = 1;                  ///< 0: any
  Length length = Length::either;  ///< wanted against trained
  Holds tuning = Holds::either;    ///< of the situation, where the length is longer
  Holds causal = Holds::either;    ///< of the situation
  Holds linear = Holds::either;    ///< of the situation's kernel: linear attention
  Holds rotary = Holds::no;        ///< yes: for a rotary model at hand; no: for a new model
  bool windowed = false;           ///< … whose layer has a window
  bool spanned = false;            ///< … whose coordinates span an image of any size
  Rank rank = Rank::alternative;   ///< avoid; else options rank by their order
  const char* encoding = "";       ///< its name in the catalog
  const char* because = "";        ///< empty: what is measured says it all
  const char* source = "";         ///< of `because`
  std::vector<const char*> shows =
      {};  ///< properties of check() that are measured as reasons; "pairs": see pairs_seen()
  const char* unless = "";
};

/// In order: the first that a situation's kernel and budget allow is recommended.
std::span<const Rule> rules();

/// What nobody knows, and where that matters.
struct Unknown {
  unsigned tasks = ordered;
  Length length = Length::either;
  Holds rotary = Holds::either;
  const char* text = "";
};
std::span<const Unknown> unknowns();

}  // namespace bearing::inspect
