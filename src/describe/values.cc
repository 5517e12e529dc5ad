#include "describe/values.hpp"

namespace bearing::describe {

Value word_value(std::span<const char* const> words, std::size_t number) { return std::string(words[number]); }

std::size_t number_of_word(std::span<const char* const> words, const Value& value) {
  const std::string& word = std::get<std::string>(value);
  std::size_t at = 0;
  while (words[at] != word) ++at;
  return at;
}

ValueType word_type(std::span<const char* const> words) {
  ValueType type{.kind = Kind::word};
  for (const char* word : words) type.words.emplace_back(word);
  return type;
}

}  // namespace bearing::describe
