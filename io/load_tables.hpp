#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// Where weights keep the tables of encodings: one row for model types that call them alike.

namespace bearing::load {

/// Words are separated by spaces.
struct TableName {
  std::string_view types;           ///< model types
  std::string_view kind;            ///< the encoding that takes the table
  std::string_view part;            ///< "encoder", "decoder" or neither
  std::string_view tensors;         ///< how names end; * stands for a number. Any of them
  std::string_view parameter = {};  ///< which of its parameters it is; empty: the first
};

/// Null for a table whose name is not known.
const TableName* find_table(std::string_view model_type, std::string_view kind, std::string_view part,
                            std::string_view parameter);

/// A tensor whose name matches, with the numbers that its stars stand for.
struct Match {
  std::string name, prefix;  ///< what stands before the pattern: "model."
  std::vector<long> numbers;
};

/// All names that a pattern's words match at their end, after nothing or a dot; in the order of their numbers.
std::vector<Match> matches(const std::vector<std::string>& names, std::string_view patterns);

}  // namespace bearing::load
