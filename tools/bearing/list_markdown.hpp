#pragma once

#include <bearing/catalog.hpp>
#include <string>
#include <vector>

namespace bearing::tool {

/// What --by takes: what has a row.
std::vector<std::string> markdown_words();

/// A table in Markdown of what a word names; `pages` is the folder of the pages that it links.
std::string list_markdown(const std::vector<const Description*>& entries, const std::string& by,
                          const std::string& pages);

}  // namespace bearing::tool
