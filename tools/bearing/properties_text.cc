#include "properties_text.hpp"

#include <fmt/format.h>

#include "picture_words.hpp"

namespace bearing::tool {

const char* claim_verdict(const inspect::Claim& claim) {
  return claim.holds == inspect::Verdict::yes ? "holds" : claim.holds == inspect::Verdict::no ? "fails" : "open";
}

std::string claim_text(const inspect::Claim& claim, const Style& style) {
  const std::string holds = fmt::format("{:5}", claim_verdict(claim));
  const std::string verdict = claim.holds == inspect::Verdict::no ? yellow(style, holds) : holds;
  std::string out = fmt::format("  {}  ", verdict) +
                    wrapped(fmt::format("{}: claim \"{}\"", claim.encoding, claim.says), style.width, 9);
  const auto add = [&](const std::string& found) { out += std::string(9, ' ') + wrapped(found, style.width, 9); };
  add("measured: " + claim.measured);
  if (!claim.trained.empty()) add("trained: " + claim.trained);
  return out;
}

std::string claims_text(std::string_view heading, const std::vector<inspect::Claim>& claims, const Style& style) {
  std::string out = bold(style, heading) + '\n';
  for (const inspect::Claim& claim : claims) out += claim_text(claim, style);
  return out;
}

void write_claims(JsonWriter& json, const std::vector<inspect::Claim>& claims) {
  json.key("claims");
  json.begin_array();
  for (const inspect::Claim& claim : claims) {
    json.begin_object();
    json.member("encoding", claim.encoding);
    json.member("claim", claim.says);
    json.member("holds", inspect::name(claim.holds));
    json.member("number", claim.number);
    json.member("measured", claim.measured);
    json.key("trained");
    if (claim.trained.empty()) {
      json.null();
    } else {
      json.value(claim.trained);
    }
    write_picture(json, claim.picture);
    json.end_object();
  }
  json.end_array();
}

}  // namespace bearing::tool
