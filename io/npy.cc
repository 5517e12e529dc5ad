#include <algorithm>
#include <bearing/npy.hpp>
#include <utility>

#include "npy_header.hpp"
#include "posix.hpp"
#include "posix_file.hpp"

namespace bearing {
namespace {

using posix::KeepErrno;

/// The bytes of a file's elements; throws ShapeError unless a .npy file can have them.
std::uint64_t checked_size(const NpyOutput& file) {
  const std::uint64_t item = npy::item_size(file.dtype);
  if (item == 0) throw ShapeError("[write_npy] dtype: must be a NumPy type such as f4, got '" + file.dtype + "'");
  if (file.shape.size() > 32) {
    throw ShapeError("[write_npy] shape: must have at most 32 extents, got " + std::to_string(file.shape.size()));
  }
  std::uint64_t size = 0;
  if (!npy::total_bytes(file.shape, item, size)) {
    throw ShapeError("[write_npy] shape: extents must be at least 0 and fit in 2^63 bytes together, got [" +
                     npy::joined(file.shape) + "]");
  }
  if (file.data == nullptr && size > 0) {
    throw ShapeError("[write_npy] data: must not be null, got null for shape [" + npy::joined(file.shape) + "]");
  }
  return size;
}

}  // namespace

NpyArray read_npy(const std::string& path) {
  const KeepErrno keep;
  const posix::OpenFile file = posix::open_regular(path);
  std::string head(std::min(file.size, npy::max_preamble + npy::max_header_length), '\0');
  posix::read_at(file, 0, head.data(), head.size(), path);
  npy::Header header = npy::parse_header(head, file.size, path);

  NpyArray array{std::move(header.dtype), std::move(header.shape), {}};
  array.bytes.resize(header.data_bytes);
  posix::read_at(file, header.data_offset, array.bytes.data(), header.data_bytes, path);
  return array;
}

void add_npy(WholeFiles& files, const NpyOutput& file) {
  const KeepErrno keep;
  const std::uint64_t size = checked_size(file);
  const std::string header = npy::make_header(file.dtype, file.shape);
  files.add(file.path, {header, {static_cast<const char*>(file.data), static_cast<std::size_t>(size)}});
}

void write_npy(const std::vector<NpyOutput>& files) {
  const KeepErrno keep;
  for (const NpyOutput& file : files) checked_size(file);
  WholeFiles pending;
  for (const NpyOutput& file : files) add_npy(pending, file);
  pending.commit();
}

void write_npy(const std::string& path, const std::string& dtype, const std::vector<Index>& shape, const void* data) {
  write_npy({NpyOutput{path, dtype, shape, data}});
}

}  // namespace bearing
