#pragma once

#include <bearing/description.hpp>
#include <bearing/positions.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "json_file.hpp"

// Records and JSON, both directions, from what the registry says of their members.

namespace bearing::json {

/// How records stand in a text.
enum class Form {
  full,   ///< every member, {"type": NAME, …} in each record: what Python's to_dict() gives
  brief,  ///< without members that are nothing; scalings of the rotation by the names of model files
};

/// The text of a value. Throws RangeError, in the name of to_json, for numbers that are not finite.
std::string text_of(const Value& value, Form form = Form::full);
/// `"member": value, …`
std::string members_text(const Record& record, Form form);

/// How an object is read.
struct Reading {
  bool tagged = true;           ///< "type" may stand in the object
  Index least = -max_position;  ///< of whole numbers
};

/// The record of an object: members that are not there keep the values of `initial`. Throws ConfigError with the
/// member's pointer for a value of another type, a key that is none and a member that must be there.
Record read_record(const Object& object, const Record& initial, const Reading& how = {});

/// One of the record types, by the object's "type"; the only one, where it has none.
const RecordType& type_of(const Object& object, const std::vector<const RecordType*>& among);

/// The rotation's spec, and its part, in either form: rope_json.cc.
Record read_rope(const Object& object);
Record read_part(const rapidjson::Value& value, const std::string& pointer, Notes& notes);

/// The name that model files have for a scaling's type: "llama3"; empty for other records.
std::string scaling_word(const RecordType& type);

}  // namespace bearing::json
