#include <algorithm>
#include <bearing/error.hpp>
#include <bearing/safetensors.hpp>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "json_file.hpp"
#include "mapped_file.hpp"
#include "safetensors_header.hpp"

namespace bearing {
namespace {

constexpr std::uint64_t worth_mapping = std::uint64_t{16} << 20;

/// A header of usual size is read, so that a file that shrinks meanwhile is an error; a huge one costs no memory.
safetensors::Header read_header(MappedFile& file, std::uint64_t& data_offset) {
  const std::uint64_t size = file.size();
  const std::string head = file.read(0, std::min(size, safetensors::preamble));
  const std::uint64_t length = safetensors::parse_length(head, size, file.path());
  data_offset = safetensors::preamble + length;
  if (length > worth_mapping) {
    return safetensors::parse_header(file.text().substr(safetensors::preamble, static_cast<std::size_t>(length)),
                                     size - data_offset, file.path());
  }
  return safetensors::parse_header(file.read(safetensors::preamble, length), size - data_offset, file.path());
}

/// A float32 that rounds to 16 bits as the number itself does: cut off, with its last bit set if anything was cut.
float with_sticky_bit(double x) {
  const float near = static_cast<float>(x);
  if (std::isnan(x) || static_cast<double>(near) == x) return near;
  auto bits = std::bit_cast<std::uint32_t>(near);
  if (std::fabs(static_cast<double>(near)) > std::fabs(x)) --bits;  // the next one towards 0
  return std::bit_cast<float>(bits | 1u);
}
template <std::integral Whole>
float with_sticky_bit(Whole n) {
  auto magnitude = static_cast<std::uint64_t>(n);  // NOLINT(bugprone-signed-char-misuse): its sign is taken off below
  if (n < 0) magnitude = 0 - magnitude;
  int cut = 0;
  for (; magnitude >> 24 != 0; ++cut) magnitude = (magnitude >> 1) | (magnitude & 1);
  const float x = std::ldexp(static_cast<float>(magnitude), cut);
  return n < 0 ? -x : x;
}

/// The whole number that a stored one is, if T holds it.
template <std::integral T, class Stored>
std::optional<T> whole(Stored number) {
  if constexpr (std::integral<Stored>) {
    if (std::in_range<T>(number)) return static_cast<T>(number);
  } else {
    constexpr double end = 0x1p1 * static_cast<double>(T{1} << (std::numeric_limits<T>::digits - 1));  // exact
    const auto x = static_cast<double>(number);
    if (x >= -end && x < end && x == std::trunc(x)) return static_cast<T>(x);
  }
  return std::nullopt;
}

template <class T, class Stored>
void convert(const StoredTensor& from, std::vector<T>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Stored bits;
    std::memcpy(&bits, from.bytes.data() + i * sizeof(Stored), sizeof(Stored));
    constexpr bool halved = std::is_same_v<Stored, Float16> || std::is_same_v<Stored, Bfloat16>;
    const auto number = static_cast<std::conditional_t<halved, float, Stored>>(bits);
    if constexpr (std::integral<T>) {
      const std::optional<T> exact = whole<T>(number);
      if (!exact) {
        std::string got;
        if constexpr (std::integral<Stored>)
          got = std::to_string(number);
        else
          got = json::shortest(static_cast<double>(number));
        from.fail("must have whole numbers of " + std::to_string(8 * sizeof(T)) + " bits to be read as such, got " +
                  got + " as number " + std::to_string(i));
      }
      to[i] = *exact;
    } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
      if constexpr (std::is_same_v<Stored, T>) {
        to[i] = bits;
      } else {
        to[i] = T(with_sticky_bit(number));
      }
    } else {
      to[i] = static_cast<T>(number);
    }
  }
}

template <class T>
using Convert = void (*)(const StoredTensor&, std::vector<T>&);

/// Null for what is no plain number.
template <class T>
Convert<T> converter(std::string_view type) {
  struct Known {
    std::string_view type;
    Convert<T> convert;
  };
  static constexpr Known known[] = {
      {"F64", convert<T, double>},        {"F32", convert<T, float>},         {"F16", convert<T, Float16>},
      {"BF16", convert<T, Bfloat16>},     {"I64", convert<T, std::int64_t>},  {"I32", convert<T, std::int32_t>},
      {"I16", convert<T, std::int16_t>},  {"I8", convert<T, std::int8_t>},    {"U64", convert<T, std::uint64_t>},
      {"U32", convert<T, std::uint32_t>}, {"U16", convert<T, std::uint16_t>}, {"U8", convert<T, std::uint8_t>},
  };
  for (const Known& one : known) {
    if (one.type == type) return one.convert;
  }
  return nullptr;
}

}  // namespace

Index StoredTensor::size() const {
  Index count = 1;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const Index extent : shape) count *= extent;
  return count;
}

void StoredTensor::fail(const std::string& text) const {
  throw ConfigError((file == nullptr ? "" : *file + ": ") + "tensor " + json::quoted(name) + ": " + text);
}

template <class T>
std::vector<T> StoredTensor::copied() const {
  const Convert<T> convert = converter<T>(type.name);
  if (convert == nullptr) fail("must have a floating-point or whole type, got " + std::string(type.name));
  const auto count = static_cast<std::size_t>(size());
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) == 0;
  if (type.name == type_name<T>() && aligned && count > 0) {
    const T* numbers = reinterpret_cast<const T*>(bytes.data());
    return {numbers, numbers + count};  // without zeros first
  }
  std::vector<T> out(count);
  convert(*this, out);
  return out;
}
template std::vector<float> StoredTensor::copied<float>() const;
template std::vector<double> StoredTensor::copied<double>() const;
template std::vector<Bfloat16> StoredTensor::copied<Bfloat16>() const;
template std::vector<Float16> StoredTensor::copied<Float16>() const;
template std::vector<std::int64_t> StoredTensor::copied<std::int64_t>() const;
template std::vector<std::int32_t> StoredTensor::copied<std::int32_t>() const;

void StoredTensor::check_view(std::string_view wanted, int rank, std::size_t alignment) const {
  if (type.name != wanted) fail("must be of " + std::string(wanted) + ", got " + std::string(type.name));
  if (shape.size() != static_cast<std::size_t>(rank)) {
    fail("must have " + std::to_string(rank) + " axes, got " + std::to_string(shape.size()));
  }
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment != 0) {
    fail("must begin at a multiple of " + std::to_string(alignment) + " bytes to be seen as it is, got byte " +
         std::to_string(offset) + ": numbers() copies it");
  }
}

bool is_safetensors_file(const std::string& path) {
  try {
    const MappedFile file(path);
    const std::string head = file.read(0, std::min<std::uint64_t>(file.size(), safetensors::preamble + 1));
    safetensors::parse_length(head, file.size(), path);
    return head.back() == '{';
  } catch (const ConfigError&) {
    return false;  // whoever opens it says why
  }
}

struct Safetensors::Content {
  explicit Content(const std::string& path) : file(path) {}
  MappedFile file;
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

Safetensors::Safetensors(const std::string& path) : content_(std::make_unique<Content>(path)) {
  std::uint64_t data_offset = 0;
  safetensors::Header header = read_header(content_->file, data_offset);
  const std::span<const std::byte> bytes = content_->file.bytes();
  content_->metadata = std::move(header.metadata);
  content_->tensors.reserve(header.entries.size());
  for (safetensors::Entry& entry : header.entries) {
    const std::uint64_t offset = data_offset + entry.begin;
    content_->tensors.push_back(
        {std::move(entry.name), entry.type, std::move(entry.shape),
         bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(entry.end - entry.begin)), offset,
         &content_->file.path()});
  }
}
Safetensors::~Safetensors() = default;
Safetensors::Safetensors(Safetensors&&) noexcept = default;
Safetensors& Safetensors::operator=(Safetensors&&) noexcept = default;

const std::string& Safetensors::path() const { return content_->file.path(); }
const std::vector<StoredTensor>& Safetensors::tensors() const { return content_->tensors; }
const std::map<std::string, std::string>& Safetensors::metadata() const { return content_->metadata; }

const StoredTensor* Safetensors::find(std::string_view name) const {
  const auto& all = content_->tensors;
  const auto at = std::lower_bound(all.begin(), all.end(), name, [](const StoredTensor& tensor, std::string_view word) {
    return tensor.name < word;
  });
  return at != all.end() && at->name == name ? &*at : nullptr;
}

const StoredTensor& Safetensors::at(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  if (tensor == nullptr) throw ConfigError(path() + ": must have a tensor " + json::quoted(name) + ", got none");
  return *tensor;
}

}  // namespace bearing
