#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gguf_header.hpp"
#include "json_file.hpp"

// The values of a GGUF file by key, with errors that name the key. Keys are given without their architecture:
// "rope.freq_base" of a Llama file is llama.rope.freq_base.

namespace bearing::gguf {

/// The longest array of one number per layer.
inline constexpr std::uint64_t most_entries = 65'536;
/// Architectures, scaling types: words.
inline constexpr std::uint64_t longest_word = 256;

class Metadata {
 public:
  Metadata(Source& source, const Header& header, json::Notes& notes);

  const std::string& architecture() const { return architecture_; }
  /// "llama.rope.freq_base"
  std::string full(std::string_view key) const { return architecture_ + '.' + std::string(key); }
  bool has(std::string_view key) const { return find(full(key)) != nullptr; }
  bool is_array(std::string_view key) const;

  /// Of any type of whole number.
  std::optional<Index> integer(std::string_view key, Index least, Index most) const;
  Index needed(std::string_view key, Index least, Index most) const;
  /// Of f32 the shortest decimal number that rounds to it: what was written before it was rounded.
  std::optional<double> number(std::string_view key, json::Range range) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> word(std::string_view key) const;
  /// Whole numbers or flags.
  std::optional<std::vector<Index>> integers(std::string_view key, Index least, Index most) const;
  /// One per layer: an array of that length, or one number for all.
  std::optional<std::vector<Index>> per_layer(std::string_view key, Index layers, Index least, Index most) const;

  [[noreturn]] void fail(std::string_view key, const std::string& text) const { notes_.fail(full(key), text); }
  void warn(std::string_view key, const std::string& text) const { notes_.warn(full(key), text); }
  json::Notes& notes() const { return notes_; }

  const Tensor* tensor(std::string_view name) const;
  /// The numbers of a tensor of one dimension with `least` entries or more; nothing if it is not there.
  std::optional<std::vector<double>> factors(const std::string& name, Index least, Index most) const;

  const Header& header() const { return header_; }

 private:
  const Value* find(std::string_view full_key) const;
  [[noreturn]] void wrong(std::string_view full_key, const std::string& wanted, const std::string& got) const;
  Index whole(std::string_view full_key, GgufType type, Cursor& cursor, Index least, Index most) const;
  std::string text(const Value& value) const;

  Source& source_;
  const Header& header_;
  json::Notes& notes_;
  std::string architecture_;
};

}  // namespace bearing::gguf
