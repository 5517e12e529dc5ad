#pragma once

#include <bearing/view.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The header of a .npy file, apart from the file itself, so that it can be tested and fuzzed in memory.
//
//     \x93NUMPY  major minor  length  {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  spaces \n  data
//     6 bytes    1     1      2 or 4  `length` bytes

namespace bearing::npy {

/// No real header comes near; NumPy itself asks before it parses a longer one.
inline constexpr std::uint64_t max_header_length = 10'000;
/// Magic, version and the longer of the two length fields.
inline constexpr std::uint64_t max_preamble = 12;

struct Header {
  std::string dtype;
  std::vector<Index> shape;
  std::uint64_t data_offset = 0, data_bytes = 0;
};

/// Parses the start of a file of `file_size` bytes; `head` holds its first min(file_size, max_preamble +
/// max_header_length) bytes or more. The sizes are checked: data_offset + data_bytes == file_size. Throws ConfigError.
Header parse_header(std::string_view head, std::uint64_t file_size, const std::string& file);

/// Bytes per element of "f4", "i8", …; 0 for a dtype that is not supported.
std::uint64_t item_size(std::string_view dtype);

/// The bytes of an array, or false if the shape has a negative extent or its product does not fit in 63 bits (extents
/// of 0 left out: a shape like [0, 2^62, 2^62] would overflow whoever multiplies it next).
bool total_bytes(const std::vector<Index>& shape, std::uint64_t item, std::uint64_t& bytes);

/// "2, 3"
std::string joined(const std::vector<Index>& shape);

/// Magic, version 1.0 and a header padded so that the data begins at a multiple of 64.
std::string make_header(std::string_view dtype, const std::vector<Index>& shape);

}  // namespace bearing::npy
