#pragma once

#include <bearing/properties.hpp>

namespace bearing::inspect {

/// The cells of a comparison that many introductions print (learnable, extrapolation, relative, memory), measured.
std::vector<Claim> table_claims();

}  // namespace bearing::inspect
