#pragma once

#include <bearing/safetensors.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// The header of a safetensors file, apart from the file itself, so that it can be tested and fuzzed in memory.
//
//     length  {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …, "__metadata__": {…}}  spaces data
//     8 bytes `length` bytes

namespace bearing::safetensors {

inline constexpr std::uint64_t preamble = 8;
inline constexpr std::uint64_t max_header_length = 100'000'000;  ///< the format's own
// No file comes near these. With what is kept of each tensor, some 200 bytes, a header costs up to 128 MiB; one that
// holds 100,000 tensors, as no model's file does yet, less than 64.
inline constexpr std::size_t most_tensors = 250'000;
inline constexpr std::size_t most_names = std::size_t{24} << 20;  ///< bytes of names and of extents together
inline constexpr std::size_t most_metadata_keys = 10'000;
inline constexpr std::size_t most_axes = 32;
inline constexpr std::size_t longest_string = std::size_t{4} << 20;
inline constexpr std::size_t most_metadata = std::size_t{16} << 20;

struct Entry {
  std::string name;
  StoredType type;
  std::vector<Index> shape;
  std::uint64_t begin = 0, end = 0;  ///< from the first byte after the header
};

struct Header {
  std::vector<Entry> entries;  ///< in the order of their names
  std::map<std::string, std::string> metadata;
};

/// The header's length from the file's first bytes (`head` holds min(8, file_size) or more). Throws ConfigError.
std::uint64_t parse_length(std::string_view head, std::uint64_t file_size, const std::string& file);

/// Parses the header's text; `data_bytes` follow it in the file. Throws ConfigError.
Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file);

/// Null for a name that the format does not have.
const StoredType* find_type(std::string_view name);

/// The bytes of a tensor, or false if the shape has a negative extent, its bits without the extents of 0 (which strides
/// are made of) do not fit in 63 bits, or the numbers do not fill whole bytes.
bool total_bytes(const std::vector<Index>& shape, int bits, std::uint64_t& bytes);

/// "[2, 3]"
std::string shape_text(const std::vector<Index>& shape);

/// Length and text, padded with spaces so that the data begins at a multiple of 8. Entries in the order of their data.
std::string make_header(const std::vector<Entry>& entries, const std::map<std::string, std::string>& metadata);

/// A JSON string.
std::string quoted_json(std::string_view text);

}  // namespace bearing::safetensors
