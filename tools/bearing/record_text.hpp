#pragma once

#include <bearing/description.hpp>
#include <string>

#include "json_writer.hpp"

// Records and their values, for people and as JSON.

namespace bearing::tool {

/// "bidirectional", "32", "yes", "1, 2, 4"; of a record what its members say. Empty for nothing.
std::string value_text(const Value& value);

/// "half or interleaved", "whole number", "list of numbers".
std::string type_text(const ValueType& type);

void write_value(JsonWriter& json, const Value& value);
/// A record's members, into the object that is open; those that are nothing are left out.
void write_members(JsonWriter& json, const Record& record);

}  // namespace bearing::tool
