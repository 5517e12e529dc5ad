#pragma once

#include <bearing/rope_report.hpp>

namespace bearing::tool {

/// What a scaling does to a pair, in a word for reports.
inline const char* name_of(PairChange change) {
  return change == PairChange::kept ? "kept" : change == PairChange::blended ? "blended" : "scaled";
}

}  // namespace bearing::tool
