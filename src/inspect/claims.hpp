#pragma once

#include <bearing/properties.hpp>

namespace bearing::inspect {

/// The encodings in a comparison that many introductions print; `stem` alone, if it is one of them and not null.
std::vector<const char*> table_stems(const std::string* stem);

/// The cells of one of them (learnable, extrapolation, relative, memory), measured.
std::vector<Claim> table_claims(const std::string& stem);

}  // namespace bearing::inspect
