#include "array_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arguments.hpp"
#include "errors.hpp"
#ifdef BEARING_TOOL_THREADS
#include <bearing/threads.hpp>
#endif

namespace bearing::tool {
namespace {

void check_dtype(const std::string& file, const std::string& dtype, const TensorFormat& format) {
  const bool bits16 = dtype == "u2" || dtype == "V2";
  if (format.bf16 && !bits16) {
    bad_file(file, fmt::format("with --bf16 the dtype must be uint16 (u2, or raw V2), got {}", dtype));
  }
  if (!format.bf16 && bits16) bad_file(file, fmt::format("holds {}: if these are bfloat16, say --bf16", dtype));
  if (!bits16 && dtype != "f2" && dtype != "f4" && dtype != "f8") {
    bad_file(file, fmt::format("the dtype must be float16, float32 or float64 (f2, f4, f8), got {}", dtype));
  }
}

/// An empty array's other extents cost its file nothing, and still are heads and tokens to go through, or rows to make
/// results for.
void check_empty(const std::string& file, const Tensor& x) {
  constexpr Index most = Index{1} << 24;
  Index others = 1;
  for (const Index extent : x.shape) {
    if (extent > 0 && others > most / extent) {
      bad_file(file, fmt::format("has no numbers: the product of its other extents must be at most 2^24, got {}",
                                 shape_text(x.array.shape)));
    }
    if (extent > 0) others *= extent;
  }
}

template <class T>
Positions positions_in(const NpyArray& array) {
  const T* data = reinterpret_cast<const T*>(array.bytes.data());
  const std::vector<Index>& shape = array.shape;
  if (shape.size() == 1) return Positions(dense(data, shape[0]));
  if (shape.size() == 2) return Positions(dense(data, shape[0], shape[1]));
  return Positions(dense(data, shape[0], shape[1], shape[2]));
}

}  // namespace

std::string shape_text(const std::vector<Index>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void bad_file(const std::string& file, const std::string& text) { throw ConfigError(file + ": " + text); }

std::vector<std::string> layouts() { return {"bhtd", "bthd"}; }

bool heads_first(const std::string& layout) { return layout == "bhtd"; }

Tensor read_tensor(const std::string& file, const TensorFormat& format) {
  Tensor x{file, read_npy(file)};
  check_dtype(file, x.array.dtype, format);
  std::vector<Index> shape = x.array.shape;
  if (shape.size() < 2 || shape.size() > 4) {
    bad_file(file, fmt::format("must be [{}], the first one or two left out where there are none; got {}",
                               format.heads_first ? "batch, heads, time, dim" : "batch, time, heads, dim",
                               shape_text(shape)));
  }
  // [time, dim] has one head: it goes where the layout keeps its heads.
  if (shape.size() == 2) shape.insert(format.heads_first ? shape.begin() : shape.begin() + 1, 1);
  if (shape.size() == 3) shape.insert(shape.begin(), 1);
  x.shape = format.heads_first ? std::array{shape[0], shape[1], shape[2], shape[3]}
                               : std::array{shape[0], shape[2], shape[1], shape[3]};
  if (x.array.bytes.empty()) check_empty(file, x);
  x.stride = strides_of(x.shape, format);
  return x;
}

std::array<Index, 4> strides_of(const std::array<Index, 4>& shape, const TensorFormat& format) {
  const auto [batch, heads, time, dim] = shape;
  return format.heads_first ? bhtd<float>(nullptr, batch, heads, time, dim).stride
                            : bthd<float>(nullptr, batch, time, heads, dim).stride;
}

TokenPositions read_positions(const std::string& file) {
  TokenPositions positions{read_npy(file), {}};
  const NpyArray& array = positions.array;
  if (array.shape.empty() || array.shape.size() > 3) {
    bad_file(file,
             fmt::format("must be [time], [batch, time] or [axes, batch, time], got {}", shape_text(array.shape)));
  }
  if (array.dtype == "i8") {
    positions.at = positions_in<Index>(array);
  } else if (array.dtype == "f8") {
    positions.at = positions_in<double>(array);
  } else {
    bad_file(file, fmt::format("the dtype must be int64 or float64 (i8, f8), got {}", array.dtype));
  }
  return positions;
}

std::vector<Index> read_index_file(const std::string& file) {
  const NpyArray array = read_npy(file);
  if (array.dtype != "i8" || array.shape.size() != 1) {
    bad_file(file, fmt::format("must be int64 (i8) of one axis, got {} {}", array.dtype, shape_text(array.shape)));
  }
  const Index* from = reinterpret_cast<const Index*>(array.bytes.data());
  return {from, from + array.shape[0]};
}

TokenPositions positions_of(const char* option, const std::string& text) {
  if (text.empty()) return {};
  if (is_index(text)) return {{}, Positions(parse_index(option, text, -max_position, max_position))};
  return read_positions(text);
}

Executor executor_of(const std::string& text) {
  const Index threads = parse_index("--threads", text, 0, 1024);
#ifdef BEARING_TOOL_THREADS
  return threads == 1 ? Executor{} : bearing::threads(threads);
#else
  if (threads > 1) throw UsageError("--threads: this build has no threads");
  return {};
#endif
}

}  // namespace bearing::tool
