#pragma once

#include <bearing/view.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace bearing {

/// A NumPy array file (.npy, format 1.0 to 3.0) in memory.
struct NpyArray {
  std::string dtype;         ///< NumPy's descr without the byte order: "f4", "f8", "f2", "u2", "i8", "i4", …
  std::vector<Index> shape;  ///< row-major; Fortran order is refused
  std::vector<std::byte> bytes;
};

/// Reads a little-endian, C-order .npy file. The header is parsed, never evaluated; its length, the shape's product and
/// the file's size are checked before anything is allocated. Throws ConfigError naming the file, what was found and
/// what was wanted.
NpyArray read_npy(const std::string& path);

/// Writes format 1.0. The file appears whole or not at all: written beside its place and renamed. Throws ConfigError.
void write_npy(const std::string& path, const std::string& dtype, const std::vector<Index>& shape, const void* data);

}  // namespace bearing
