#pragma once

#include <bearing/choose.hpp>
#include <string>

#include "terminal.hpp"

namespace bearing::tool {

/// An answer for people.
std::string to_text(const inspect::Advice& advice, const Style& style);
/// "bearing.choose/1"
std::string to_json(const inspect::Advice& advice);

}  // namespace bearing::tool
