#pragma once

#include <bearing/properties.hpp>
#include <string>
#include <vector>

#include "json_writer.hpp"
#include "terminal.hpp"

namespace bearing::tool {

/// "holds", "fails" or "open"
const char* claim_verdict(const inspect::Claim& claim);

/// A claim: whether it holds, what is said, what was measured, what trained models did.
std::string claim_text(const inspect::Claim& claim, const Style& style);
/// A heading, and what each claim says beside what was measured.
std::string claims_text(std::string_view heading, const std::vector<inspect::Claim>& claims, const Style& style);

/// "claims": [{"encoding", "claim", "holds", "number", "measured", "trained", "picture"}, …]
void write_claims(JsonWriter& json, const std::vector<inspect::Claim>& claims);

}  // namespace bearing::tool
