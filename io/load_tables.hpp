#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// Where weights keep the tables of encodings: one row for model types that call them alike.

namespace bearing::load {

/// How a tensor becomes the table that an encoding takes.
enum class Arranged {
  as_it_is,
  transposed,       ///< its two axes change places
  reversed,         ///< its rows, the second-last axis, in falling order: they count query minus key
  reversed_short,   ///< the same, and the last row serves the farthest distance before the query too: it has none there
  flat_transposed,  ///< [width, heads, dim] becomes [heads dim, width]
  joined,           ///< all axes but the last become one: [batch, rows, columns, dim] a row per patch
  first_of_two,     ///< [2, rows, dim]: the first one
  second_of_two,    ///< the second one
  sines_first,      ///< its columns meet sine and cosine in turn: they become those of all sines, then of all cosines
};

/// Words are separated by spaces, and alternatives by bars.
struct TableName {
  std::string_view types;           ///< model types
  std::string_view kind;            ///< the encoding that takes the table
  std::string_view part;            ///< "encoder", "decoder" or neither
  std::string_view tensors;         ///< how names end; * stands for a number. Any of the first words that are found
  std::string_view parameter = {};  ///< which of its parameters it is; empty: the first
  Arranged arranged = Arranged::as_it_is;
  int place = 0;  ///< which of a layer's encodings has it, 0 the first; or which of the inputs of a part
};

/// Null for a table whose name is not known.
const TableName* find_table(std::string_view model_type, std::string_view kind, std::string_view part,
                            std::string_view parameter, int place = 0);

/// A tensor whose name matches, with the numbers that its stars stand for.
struct Match {
  std::string name, prefix;  ///< what stands before the pattern: "model."
  std::vector<long> numbers;
};

/// All names that a pattern's words match at their end, after nothing or a dot; in the order of their numbers.
std::vector<Match> matches(const std::vector<std::string>& names, std::string_view patterns);

}  // namespace bearing::load
