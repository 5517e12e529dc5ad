#pragma once

#include <rapidjson/document.h>

#include <bearing/io.hpp>

namespace bearing::tool {

/// The rotary spec as the library writes it, to be shown member by member: {"head_dim": …, "scaling": {…}, …}.
inline rapidjson::Document spec_members(const Rope& rope) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseFullPrecisionFlag>(to_json(rope).c_str());
  return document;
}

}  // namespace bearing::tool
