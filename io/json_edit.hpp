#pragma once

#include <string>
#include <string_view>
#include <vector>

// Changes to one object of a JSON text that leave every other byte as it is.

namespace bearing::json {

/// A member as the text has it. `lead` is the white space from the comma or brace before it to its key.
struct MemberText {
  std::string lead, key, value;
  std::string between = ": ";  ///< from the key to the value
  std::string after = {};      ///< from the value to the next comma or brace
};

/// An object of a text that Document has read: its members, to be changed, and written back by text_with().
struct ObjectText {
  std::size_t begin = 0, end = 0;  ///< of the whole text: '{' and one past '}'
  std::vector<MemberText> members;
  std::string empty = {};  ///< white space within "{}"

  /// The last member of that name, as Document counts; null if there is none. Names written with escapes are not found.
  const MemberText* find(std::string_view key) const;
  /// Takes out every member of that name; what is before the closing brace stays.
  void remove(std::string_view key);
  /// Puts a member before the index-th one, with its neighbour's indentation.
  void insert(std::size_t index, std::string_view key, std::string value);

  /// The white space that begins a line of this object's members; "" if they stand on one line.
  std::string indentation() const;
  std::string text() const;
};

/// The object at a JSON pointer. The text must be one that Document has read, and the pointer one of its objects'.
ObjectText object_text(std::string_view text, std::string_view pointer);

/// The members of an object that stands by itself: "{"a": 1}".
ObjectText parse_object_text(std::string_view object);

/// The text with the object's members in place of those that it had.
std::string text_with(std::string_view text, const ObjectText& object);

/// An object of these members for a place whose lines begin with `indentation`, one member a line; on one line if that
/// is "".
struct Pair {
  std::string key, value;
};
std::string object_of(const std::vector<Pair>& members, const std::string& indentation, const std::string& step);

}  // namespace bearing::json
