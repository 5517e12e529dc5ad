#pragma once

#include <bearing/properties.hpp>
#include <string>
#include <vector>

#include "json_writer.hpp"
#include "terminal.hpp"

namespace bearing::tool {

/// "holds", "fails" or "open"
const char* claim_verdict(const inspect::Claim& claim);

/// A heading, and what each claim says beside what was measured.
std::string claims_text(std::string_view heading, const std::vector<inspect::Claim>& claims, const Style& style);

/// "claims": [{"encoding", "claim", "holds", "number", "measured"}, …]
void write_claims(JsonWriter& json, const std::vector<inspect::Claim>& claims);

}  // namespace bearing::tool
