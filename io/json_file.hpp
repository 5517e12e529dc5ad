#pragma once

#include <bearing/io.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rapidjson.hpp"

// JSON text from strangers: read within limits, never by recursion, with errors and warnings that say where.

namespace bearing::json {

inline constexpr int most_levels = 128;
inline constexpr const char* half_a_character = "a string must have whole characters, got half of a surrogate pair";
/// What a text may have. RapidJSON keeps 16 bytes per value and needs twice that while it reads: 500,000 values stay
/// under 20 MB.
struct Limits {
  std::size_t mebibytes = 16;
  Index values = 500'000;
};
/// Of an object that is read; real files have a few hundred.
inline constexpr std::size_t most_keys = 10'000;
/// Of a string that is read, and of one that is a name, such as model_type. Other strings, as templates, may be longer.
inline constexpr std::size_t longest_text = 10'000, longest_word = 256;

/// How much a warning matters, the most first.
enum class Weight {
  grave,   ///< a part is not read, something is assumed of an unknown model, or the model's own code does otherwise
  usual,   ///< two keys contradict each other, or a user should know
  slight,  ///< a class' default stands in, or a key does nothing: many files have one
};

/// What is said about one file: its name stands before every error; warnings are collected.
class Notes {
 public:
  explicit Notes(std::string file) : file_(std::move(file)) {}

  [[noreturn]] void fail(const std::string& pointer, const std::string& text) const;
  /// A hostile file could give a warning per key: after the hundredth only a last one says so.
  void warn(const std::string& pointer, const std::string& text, Weight weight = Weight::usual);
  const std::string& file() const { return file_; }
  /// By their weight, and in the order in which they were said.
  std::vector<ConfigWarning> take();

 private:
  struct Weighed {
    ConfigWarning warning;
    Weight weight;
  };
  std::string file_;
  std::vector<Weighed> warnings_;
};

/// The whole file's text. Throws ConfigError for one that is missing, a directory or too large.
std::string read_text(const std::string& path, const Limits& limits = {});

/// A parsed text. A byte order mark is skipped with a warning; numbers may be NaN or Infinity, as Python writes them.
class Document {
 public:
  /// Throws ConfigError naming line and column.
  Document(const std::string& text, Notes& notes, const Limits& limits = {});
  const rapidjson::Value& root() const { return document_; }

 private:
  rapidjson::Document document_;
};

/// In quotes, printable (utf8.hpp), cut after 40 bytes.
std::string quoted(std::string_view text);

/// What a value is, for messages: 7.5, "llama", true, null, an array of 3, an object.
std::string found(const rapidjson::Value& value);

/// The shortest form of a number that reads back, whatever the locale.
std::string shortest(double value);

/// Least and most allowed, both included; or numbers above the least.
struct Range {
  double least, most;
  bool above = false;
  bool has(double number) const {  // false for NaN
    return (above ? number > least : number >= least) && number <= most;
  }
};
inline constexpr Range positive{1e-300, 1e300};
inline constexpr Range finite{-1e300, 1e300};

/// Nothing unless the value is a number in range; a whole number may be written as 10000.0.
std::optional<double> as_number(const rapidjson::Value& value, Range range);
std::optional<Index> as_integer(const rapidjson::Value& value, Index least, Index most);
/// "a number above 0", "a number above 1, at most 1e+100", "a whole number from 0 to 7"
std::string in_range(Range range);
std::string in_range(Index least, Index most);

/// An object of a file, with its JSON pointer. A member that is null counts as absent; of two members with one name
/// the last counts, as in Python. A value of the wrong type or out of range throws ConfigError.
class Object {
 public:
  Object(const rapidjson::Value& value, std::string pointer, Notes& notes);

  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool mentions(std::string_view key) const { return member(key) != nullptr; }  ///< be it as null
  const rapidjson::Value* find(std::string_view key) const;
  /// The first of several spellings that is there; "" if none is.
  std::string_view spelled(const std::vector<std::string_view>& keys) const;
  std::vector<std::string_view> keys() const;

  std::optional<double> number(std::string_view key, Range range) const;
  std::optional<Index> integer(std::string_view key, Index least, Index most) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> text(std::string_view key, std::size_t longest = longest_text) const;
  std::optional<Object> object(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key, std::size_t most_entries, Range range) const;
  std::optional<std::vector<Index>> integers(std::string_view key, std::size_t most_entries, Index least,
                                             Index most) const;
  std::optional<std::vector<std::string>> texts(std::string_view key, std::size_t most_entries) const;
  std::optional<std::vector<Object>> objects(std::string_view key, std::size_t most_entries) const;

  std::string pointer(std::string_view key) const;
  const std::string& pointer() const { return pointer_; }
  /// "must be `wanted`, got …" for a member that is there.
  [[noreturn]] void wrong(std::string_view key, const std::string& wanted) const;
  [[noreturn]] void missing(std::string_view key, const std::string& wanted) const;
  void warn(std::string_view key, const std::string& text, Weight weight = Weight::usual) const {
    notes_->warn(pointer(key), text, weight);
  }
  Notes& notes() const { return *notes_; }

 private:
  const rapidjson::Value* member(std::string_view key) const;
  const rapidjson::Value* array(std::string_view key, std::size_t most_entries, const char* of) const;

  struct Member {
    std::string_view key;
    const rapidjson::Value* value;
  };

  const rapidjson::Value* value_;
  std::shared_ptr<const std::vector<Member>> sorted_;  ///< by key, those of one key as in the file
  std::string pointer_;
  Notes* notes_;
};

}  // namespace bearing::json
