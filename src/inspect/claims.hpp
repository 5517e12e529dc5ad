#pragma once

#include <bearing/properties.hpp>

namespace bearing::inspect {

/// The encodings in a comparison that many introductions print; `name` alone, if it is one of them and not null.
std::vector<const char*> table_names(const std::string* name);

/// The cells of one of them (learnable, extrapolation, relative, memory), measured.
std::vector<Claim> table_claims(const std::string& name);

}  // namespace bearing::inspect
