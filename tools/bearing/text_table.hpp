#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "terminal.hpp"

namespace bearing::tool {

/// Rows of text under headings. The last column is broken at spaces to fit the width; where even that leaves it no
/// room, each row becomes a block of lines, "heading: cell".
std::string text_table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows,
                       const Style& style);

/// A text from outside in Markdown, as code: printable(), between more backquotes than it has in a row.
std::string markdown_code(std::string_view text);

/// The same as text_table() in Markdown.
std::string markdown_table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows);

}  // namespace bearing::tool
