#pragma once

#include <bearing/export.hpp>
#include <bearing/figures.hpp>
#include <string>
#include <string_view>

// Pictures from JSON, for numbers that the library did not work out. Link `bearing::io`.

namespace bearing::inspect {

/// Reads a figure of the schema bearing.figure/1, as `bearing plot --json` and Python's Figure.to_json() write it:
/// docs/guide/check-json-schema.md. Members that a figure can do without may be left out; others than the schema's are
/// refused. Axes must have two different ends, and both above 0 on a logarithmic scale.
///
/// Throws ConfigError, which names the file, line and column or JSON pointer, what must hold and what was found. Files
/// over 64 MiB or with more than 2,000,000 values are refused, and texts over 10,000 bytes.
BEARING_EXPORT Figure read_figure(const std::string& path);

/// The same from text in memory; `name` stands for the file in messages.
BEARING_EXPORT Figure parse_figure(std::string_view json, const std::string& name = "figure");

}  // namespace bearing::inspect
