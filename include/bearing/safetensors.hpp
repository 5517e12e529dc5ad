#pragma once

#include <bearing/export.hpp>
#include <bearing/half.hpp>
#include <bearing/view.hpp>
#include <bearing/whole_files.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Tensors of safetensors files, which are what models' weights come in: read through a map, written at once. Link
// `bearing::io`.

namespace bearing {

/// The type of a stored tensor's numbers, as the file calls it: "F32", "BF16", "I64", …
struct StoredType {
  std::string_view name;
  int bits = 0;  ///< of one number: 4 for F4, 6 for F6_E2M3
  bool operator==(const StoredType&) const = default;
};

/// The types of the format. Numbers of F64, F32, F16, BF16 and of whole types can be read; of others, their bytes.
BEARING_EXPORT std::span<const StoredType> stored_types();

/// The types as which StoredTensor::numbers() reads numbers; view() sees those of every type of C++ as they are.
template <class T>
concept StoredNumber = std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, Bfloat16> ||
    std::is_same_v<T, Float16> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::int32_t>;

/// A tensor of a file: what its header says, and its memory.
struct BEARING_EXPORT StoredTensor {
  std::string name;
  StoredType type;
  std::vector<Index> shape;           ///< row-major; empty for a single number
  std::span<const std::byte> bytes;   ///< in the file's map, which must live as long
  std::uint64_t offset = 0;           ///< of the first byte in the file
  const std::string* file = nullptr;  ///< its path

  Index size() const;  ///< how many numbers
  /// The numbers of a floating-point or whole type as T, copied: rounded to nearest, once, for a floating-point T, and
  /// exact for a whole T. Throws ConfigError for another type in the file, and for a number that a whole T does not
  /// hold.
  template <StoredNumber T>
  std::vector<T> numbers() const {
    return copied<T>();
  }
  /// The memory as it is. Throws ConfigError unless the type is T, the shape has that rank and the bytes begin at a
  /// multiple of T's size.
  template <class T, int Rank>
  View<const T, Rank> view() const {
    check_view(type_name<T>(), Rank, alignof(T));
    View<const T, Rank> out{reinterpret_cast<const T*>(bytes.data()), {}, {}};
    Index step = 1;
    for (std::size_t axis = Rank; axis-- > 0;) {
      out.shape[axis] = shape[axis];
      out.stride[axis] = step;
      step *= shape[axis];
    }
    return out;
  }
  [[noreturn]] void fail(const std::string& text) const;  ///< a ConfigError that names the file and the tensor

 private:
  template <class T>
  static constexpr std::string_view type_name();
  template <class T>
  std::vector<T> copied() const;  // compilers of several ages spell a constraint in its name each in their way
  void check_view(std::string_view wanted, int rank, std::size_t alignment) const;
};

/// Whether a path is that of a regular file that begins as one does: a length that fits into it, then a brace. False
/// for one that is missing or cannot be read.
BEARING_EXPORT bool is_safetensors_file(const std::string& path);

/// One file. Its header is checked whole when it is opened: the length is at most 100,000,000 bytes and not past the
/// file's end; it is one JSON object; no name is there twice; every type is one of the format's; type and shape make up
/// the bytes that are stated; tensors lie one behind the other, without holes or overlaps, up to the end of the file.
class BEARING_EXPORT Safetensors {
 public:
  /// Throws ConfigError, which names the file, the byte or the tensor, what must hold and what was found.
  explicit Safetensors(const std::string& path);
  ~Safetensors();
  Safetensors(Safetensors&&) noexcept;
  Safetensors& operator=(Safetensors&&) noexcept;

  const std::string& path() const;
  const std::vector<StoredTensor>& tensors() const;       ///< in the order of their names
  const StoredTensor* find(std::string_view name) const;  ///< null if there is none
  /// Throws ConfigError if there is none.
  const StoredTensor& at(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const;  ///< what the header has under "__metadata__"

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

/// A model's tensors, in one file or in several with an index. A file of several is opened when a tensor of it is
/// asked for.
class BEARING_EXPORT Weights {
 public:
  /// A .safetensors file, an index (model.safetensors.index.json), or a folder that holds model.safetensors or an
  /// index. Throws ConfigError for another path, and for a file or an index that breaks a rule; an index may name no
  /// file outside its folder.
  explicit Weights(const std::string& path);
  ~Weights();
  Weights(Weights&&) noexcept;
  Weights& operator=(Weights&&) noexcept;

  const std::string& path() const;         ///< of the file or of the index
  std::vector<std::string> names() const;  ///< of all tensors, in order
  std::vector<std::string> files() const;  ///< that hold them
  bool has(std::string_view name) const;
  /// Opens the tensor's file. Throws ConfigError for a name that is not there, and for an index that is wrong about it.
  /// Not to be called by two threads at once.
  const StoredTensor& at(std::string_view name);
  /// What the files' headers say under "__metadata__", of the first that says it; opens every file.
  std::map<std::string, std::string> metadata();
  /// Opens every file: each holds what the index says of it, and nothing else.
  void check_all();

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

/// One tensor to write; `data` holds its numbers row by row.
struct SafetensorsOutput {
  std::string name;
  std::string type;  ///< "F32", …
  std::vector<Index> shape;
  const void* data = nullptr;
};

/// Adds a file to those that are written together. Tensors of wide types come first, so that each begins at a
/// multiple of its numbers' size; those of one type are in the order of their names. Throws as WholeFiles::add, and
/// ShapeError for a type, a shape, or a name that the format cannot have.
BEARING_EXPORT void add_safetensors(WholeFiles& files, const std::string& path,
                                    const std::vector<SafetensorsOutput>& tensors,
                                    const std::map<std::string, std::string>& metadata = {});

/// Writes one file: after a failure the old one is as it was.
BEARING_EXPORT void write_safetensors(const std::string& path, const std::vector<SafetensorsOutput>& tensors,
                                      const std::map<std::string, std::string>& metadata = {});

/// Writes model-00001-of-0000N.safetensors and model.safetensors.index.json into a folder, in the order given, each
/// file of at most `most_bytes` of numbers (a larger tensor has one of its own). One file needs no index, and is
/// model.safetensors. All of them appear at once.
BEARING_EXPORT void write_sharded_safetensors(const std::string& folder, const std::vector<SafetensorsOutput>& tensors,
                                              std::uint64_t most_bytes,
                                              const std::map<std::string, std::string>& metadata = {});

template <class T>
constexpr std::string_view StoredTensor::type_name() {
  if constexpr (std::is_same_v<T, double>) return "F64";
  if constexpr (std::is_same_v<T, float>) return "F32";
  if constexpr (std::is_same_v<T, Float16>) return "F16";
  if constexpr (std::is_same_v<T, Bfloat16>) return "BF16";
  if constexpr (std::is_same_v<T, std::int64_t>) return "I64";
  if constexpr (std::is_same_v<T, std::int32_t>) return "I32";
  if constexpr (std::is_same_v<T, std::int16_t>) return "I16";
  if constexpr (std::is_same_v<T, std::int8_t>) return "I8";
  if constexpr (std::is_same_v<T, std::uint64_t>) return "U64";
  if constexpr (std::is_same_v<T, std::uint32_t>) return "U32";
  if constexpr (std::is_same_v<T, std::uint16_t>) return "U16";
  if constexpr (std::is_same_v<T, std::uint8_t>) return "U8";
  return "";
}

}  // namespace bearing
