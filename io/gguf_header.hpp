#pragma once

#include <bearing/gguf.hpp>
#include <map>
#include <optional>

#include "gguf_source.hpp"

// The header of a GGUF file: what it holds and where, nothing of the values themselves.
//
//     "GGUF"  version  tensors  pairs  { key  type  value }…  { name  rank  extents…  type  offset }…  padding  data
//     4       4        8        8      8+n    4     …           8+n   4     8·rank     4     8

namespace bearing::gguf {

// No real file comes near these; they keep a hostile one below 64 MiB and a second.
inline constexpr std::uint64_t most_pairs = 16'384;
inline constexpr std::uint64_t most_tensors = 65'536;
inline constexpr std::uint64_t longest_key = 1'024;
inline constexpr std::uint64_t longest_name = 64;            ///< ggml's own limit
inline constexpr std::uint64_t most_header = 64ULL << 20;    ///< bytes before the tensors' data
inline constexpr std::uint64_t most_alignment = 1ULL << 20;  ///< a page or two in use
inline constexpr std::uint64_t most_strings = 4'194'304;     ///< in an array; the largest vocabularies have a million
inline constexpr int deepest_array = 4;                      ///< ggml itself refuses arrays in arrays

/// Where a value lies.
struct Value {
  GgufType type = GgufType::u32;
  GgufType element = GgufType::u32;  ///< of an array
  std::uint64_t count = 1;           ///< elements of an array, bytes of a string
  std::uint64_t offset = 0;          ///< of the first byte of the value itself, in the file
};

struct Tensor {
  std::vector<std::uint64_t> shape;  ///< as in the file: the fastest extent first
  std::uint32_t type = 0;            ///< ggml's number
  std::uint64_t offset = 0;          ///< in the file
  std::uint64_t bytes = 0;
};

struct Header {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::map<std::string, Value, std::less<>> values;
  std::map<std::string, Tensor, std::less<>> tensors;
};

/// Every size is checked against the bytes that are left before anything is kept. Throws ConfigError.
Header parse_header(Source& source);

/// "u32", "string", "array of f32"
std::string type_name(const Value& value);
const char* type_name(GgufType type);

/// Bytes of a number's type; 0 for strings and arrays.
std::uint64_t width_of(GgufType type);

/// "F32", "Q4_K"; null for a number that ggml does not use.
const char* tensor_type_name(std::uint32_t type);

/// A tensor's numbers, which must be F32, as ggml wants factors to be; throws ConfigError otherwise.
std::vector<double> tensor_numbers(Source& source, const std::string& name, const Tensor& tensor);

}  // namespace bearing::gguf
