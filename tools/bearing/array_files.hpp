#pragma once

#include <array>
#include <bearing/error.hpp>
#include <bearing/executor.hpp>
#include <bearing/half.hpp>
#include <bearing/npy.hpp>
#include <bearing/positions.hpp>
#include <bit>
#include <string>
#include <type_traits>
#include <vector>

// What commands read from .npy files: tensors, positions, parameters. What a file holds and should not is a ConfigError
// that names it.

namespace bearing::tool {

/// "[2, 3]"
std::string shape_text(const std::vector<Index>& shape);

[[noreturn]] void bad_file(const std::string& file, const std::string& text);

/// How a tensor's file is to be read: --layout and --bf16.
struct TensorFormat {
  bool heads_first = true;  ///< bhtd, else bthd
  bool bf16 = false;        ///< 16-bit integers are bfloat16
};

/// The words of --layout, and which puts heads before time.
std::vector<std::string> layouts();
bool heads_first(const std::string& layout);

/// A tensor from a file.
struct Tensor {
  std::string file;
  NpyArray array;
  std::array<Index, 4> shape{}, stride{};  ///< (batch, heads, time, dim)

  template <class T>
  View<T, 4> view() {
    return {reinterpret_cast<T*>(array.bytes.data()), shape, stride};
  }
};

/// Reads [batch, heads, time, dim], in the format's order, the first one or two left out where there are none.
Tensor read_tensor(const std::string& file, const TensorFormat& format);

/// Contiguous strides of (batch, heads, time, dim) in the format's order.
std::array<Index, 4> strides_of(const std::array<Index, 4>& shape, const TensorFormat& format);

/// Positions, and the numbers they refer to.
struct TokenPositions {
  NpyArray array;
  Positions at;
};

/// int64 or float64: [time], [batch, time] or [axes, batch, time].
TokenPositions read_positions(const std::string& file);

/// The numbers of a file of int64 with one axis.
std::vector<Index> read_index_file(const std::string& file);

/// The first token's position, a file of positions, or 0 for an empty text; throws UsageError naming the option.
TokenPositions positions_of(const char* option, const std::string& text);

/// --threads N, 0 for all; throws UsageError.
Executor executor_of(const std::string& threads);

/// The numbers of a file of floats, in another type of floats.
template <class A>
std::vector<A> read_numbers(const std::string& file, const NpyArray& array) {
  std::vector<A> numbers;
  const auto convert = [&]<class T>(T) {
    const std::size_t n = array.bytes.size() / sizeof(T);
    const T* from = reinterpret_cast<const T*>(array.bytes.data());
    numbers.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, Float16>) {
        numbers[i] = static_cast<A>(static_cast<float>(from[i]));
      } else {
        numbers[i] = static_cast<A>(from[i]);
      }
    }
  };
  if (array.dtype == "f2") {
    convert(Float16{});
  } else if (array.dtype == "f4") {
    convert(float{});
  } else if (array.dtype == "f8") {
    convert(double{});
  } else {
    bad_file(file, "the dtype must be float16, float32 or float64 (f2, f4, f8), got " + array.dtype);
  }
  return numbers;
}

/// The name that .npy files have for T.
template <class T>
constexpr const char* dtype_of() {
  if constexpr (std::is_same_v<T, double>) return "f8";
  if constexpr (std::is_same_v<T, float>) return "f4";
  if constexpr (std::is_same_v<T, Float16>) return "f2";
  if constexpr (std::is_same_v<T, Bfloat16>) return "u2";
}

}  // namespace bearing::tool
