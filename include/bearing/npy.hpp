#pragma once

#include <bearing/export.hpp>
#include <bearing/view.hpp>
#include <bearing/whole_files.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace bearing {

/// A NumPy array file (.npy, format 1.0 to 3.0) in memory.
struct NpyArray {
  std::string dtype;         ///< NumPy's descr without the byte order: "f4", "f8", "f2", "u2", "i8", "i4", "V2", …
  std::vector<Index> shape;  ///< row-major; Fortran order is refused; empty for a single number
  std::vector<std::byte> bytes;
};

/// Reads a little-endian, C-order .npy file of plain numbers (or of raw bytes of a fixed size, "V2": what bfloat16
/// arrays are saved as). The header is parsed, never evaluated; its length, the shape's product and the file's size are
/// checked before anything is allocated. Throws ConfigError, which names the file, the byte, what must hold and what
/// was found.
BEARING_EXPORT NpyArray read_npy(const std::string& path);

/// One file to write: `data` holds the elements in C order.
struct NpyOutput {
  std::string path;
  std::string dtype;
  std::vector<Index> shape;
  const void* data = nullptr;
};

/// Adds an .npy file of format 1.0 to files that are written together. Throws as WholeFiles::add, and ShapeError for a
/// dtype or a shape that no .npy file can have.
BEARING_EXPORT void add_npy(WholeFiles& files, const NpyOutput& file);

/// Writes all of them at once: after a failure the old files are as they were.
BEARING_EXPORT void write_npy(const std::vector<NpyOutput>& files);
BEARING_EXPORT void write_npy(const std::string& path, const std::string& dtype, const std::vector<Index>& shape,
                              const void* data);

}  // namespace bearing
