#include "gguf_header.hpp"

#include <algorithm>
#include <bearing/error.hpp>
#include <bit>
#include <iterator>

#include "json_file.hpp"

namespace bearing::gguf {
namespace {

constexpr std::string_view magic = "GGUF", magic_of_big_endian = "FUGG";
constexpr std::uint32_t most_dimensions = 4;

constexpr const char* type_names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                      "bool", "string", "array", "u64", "i64", "f64"};
constexpr std::uint64_t widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/// ggml's types: numbers in a block, and a block's bytes. A type that ggml has given up has none.
struct TensorType {
  const char* name;
  std::uint32_t number;
  std::uint64_t block, bytes;
};
constexpr TensorType tensor_types[] = {
    {"F32", 0, 1, 4},         {"F16", 1, 1, 2},         {"Q4_0", 2, 32, 18},      {"Q4_1", 3, 32, 20},
    {"Q5_0", 6, 32, 22},      {"Q5_1", 7, 32, 24},      {"Q8_0", 8, 32, 34},      {"Q8_1", 9, 32, 36},
    {"Q2_K", 10, 256, 84},    {"Q3_K", 11, 256, 110},   {"Q4_K", 12, 256, 144},   {"Q5_K", 13, 256, 176},
    {"Q6_K", 14, 256, 210},   {"Q8_K", 15, 256, 292},   {"IQ2_XXS", 16, 256, 66}, {"IQ2_XS", 17, 256, 74},
    {"IQ3_XXS", 18, 256, 98}, {"IQ1_S", 19, 256, 50},   {"IQ4_NL", 20, 32, 18},   {"IQ3_S", 21, 256, 110},
    {"IQ2_S", 22, 256, 82},   {"IQ4_XS", 23, 256, 136}, {"I8", 24, 1, 1},         {"I16", 25, 1, 2},
    {"I32", 26, 1, 4},        {"I64", 27, 1, 8},        {"F64", 28, 1, 8},        {"IQ1_M", 29, 256, 56},
    {"BF16", 30, 1, 2},       {"TQ1_0", 34, 256, 54},   {"TQ2_0", 35, 256, 66},   {"MXFP4", 39, 32, 17},
    {"NVFP4", 40, 64, 36},    {"Q1_0", 41, 128, 18},    {"Q2_0", 42, 64, 18}};

const TensorType* find_tensor_type(std::uint32_t number) {
  const auto* at = std::find_if(std::begin(tensor_types), std::end(tensor_types),
                                [&](const TensorType& type) { return type.number == number; });
  return at == std::end(tensor_types) ? nullptr : at;
}

std::string text(std::uint64_t number) { return std::to_string(number); }

/// Reads a header from a cursor that cannot leave the file, and stops where the header is longer than any real one.
class Parser {
 public:
  explicit Parser(Source& source) : cursor_(source) {}

  Header parse() {
    read_magic();
    const std::uint64_t tensors = read_count("the number of tensors", most_tensors, least_tensor);
    const std::uint64_t pairs = read_count("the number of keys", most_pairs, least_pair);
    for (std::uint64_t i = 0; i < pairs; ++i) read_pair();
    read_alignment();
    std::vector<decltype(Header::tensors)::iterator> order;
    for (std::uint64_t i = 0; i < tensors; ++i) order.push_back(read_tensor());
    place(order);
    return std::move(header_);
  }

 private:
  // The shortest of each: a key of one byte with a value of one, a name of none without extents.
  static constexpr std::uint64_t least_pair = 8 + 1 + 4 + 1, least_tensor = 8 + 4 + 4 + 8;

  void read_magic() {
    const std::uint64_t n = std::min<std::uint64_t>(cursor_.left(), magic.size());
    const std::string found(cursor_.take(n, "the file"));
    if (found == magic_of_big_endian) cursor_.fail(0, "the file must be little-endian, got a big-endian one");
    if (found != magic) {
      cursor_.fail(0, "not a GGUF file: it must begin with \"GGUF\", got " +
                          (found.empty() ? std::string("an empty file") : json::quoted(found)));
    }
    header_.version = cursor_.u32("the version");
    if (header_.version != 0 && (header_.version & 0xFFFF) == 0) {
      cursor_.fail(4, "the file must be little-endian, got a big-endian one of version " +
                          text(((header_.version >> 8) & 0xFF00) | (header_.version >> 24)));
    }
    if (header_.version != 2 && header_.version != 3) {
      cursor_.fail(4, "the version must be 2 or 3, got " + text(header_.version));
    }
  }

  /// How many there are of things that take `least` bytes each.
  std::uint64_t read_count(const char* what, std::uint64_t most, std::uint64_t least) {
    const std::uint64_t at = cursor_.at(), count = cursor_.u64(what);
    if (count > most) cursor_.fail(at, std::string(what) + " must be at most " + text(most) + ", got " + text(count));
    if (count > cursor_.left() / least) {
      cursor_.fail(at, std::string(what) + " must fit in the file: each takes " + text(least) + " bytes or more, got " +
                           text(count) + " of them and " + text(cursor_.left()) + " bytes to the end");
    }
    return count;
  }

  void check_length(std::uint64_t at) const {
    if (cursor_.at() > most_header) cursor_.fail(at, "the header must be at most 64 MiB long");
  }

  std::string read_name(const char* what, std::uint64_t most) {
    const std::uint64_t at = cursor_.at(), length = cursor_.u64(what);
    if (length > most) {
      cursor_.fail(at, std::string(what) + " must have at most " + text(most) + " bytes, got " + text(length));
    }
    return std::string(cursor_.take(length, what));
  }

  GgufType read_type(const std::string& key) {
    const std::uint64_t at = cursor_.at();
    const std::uint32_t number = cursor_.u32("a value's type");
    if (number >= std::size(type_names)) {
      cursor_.fail(at, "the type of " + json::quoted(key) + " must be from 0 to 12, got " + text(number));
    }
    return static_cast<GgufType>(number);
  }

  void read_pair() {
    const std::uint64_t at = cursor_.at();
    const std::string key = read_name("a key", longest_key);
    if (key.empty()) cursor_.fail(at, "a key must not be empty");
    Value value{.type = read_type(key)};
    if (value.type == GgufType::array) {
      value.element = read_type(key);
      value.count = cursor_.u64("an array's length");
      value.offset = cursor_.at();
      skip_array(key, value.element, value.count);
    } else if (value.type == GgufType::string) {
      value.count = cursor_.u64("a string's length");
      value.offset = cursor_.at();
      cursor_.skip(value.count, "a string");
    } else {
      value.offset = cursor_.at();
      if (value.type == GgufType::boolean) {
        check_flag(key);
      } else {
        cursor_.skip(width_of(value.type), "a number");
      }
    }
    check_length(at);
    if (!header_.values.emplace(key, value).second) {
      cursor_.fail(at, "a key must be there once, got a second " + json::quoted(key));
    }
  }

  void check_flag(const std::string& key) {
    const std::uint64_t at = cursor_.at(), flag = cursor_.number(1, "a flag");
    if (flag > 1) cursor_.fail(at, "the flag " + json::quoted(key) + " must be 0 or 1, got " + text(flag));
  }

  /// Arrays in arrays are walked with a list of what is still to come at each level, not by recursion.
  void skip_array(const std::string& key, GgufType element, std::uint64_t count) {
    const std::uint64_t start = cursor_.at();
    std::vector<std::uint64_t> to_come;  // arrays
    while (true) {
      if (element == GgufType::array) {
        if (to_come.size() + 1 == deepest_array) cursor_.fail(start, "arrays must be nested at most 4 deep");
        to_come.push_back(count);
      } else if (element == GgufType::string) {
        strings_ += std::min(count, most_strings + 1);
        if (strings_ > most_strings) {
          cursor_.fail(start, "arrays must have at most " + text(most_strings) + " strings in all, got " + text(count) +
                                  " more");
        }
        for (std::uint64_t i = 0; i < count; ++i) {
          cursor_.skip(cursor_.u64("a string's length"), "a string in an array");
          if (cursor_.at() > most_header) break;
        }
      } else {
        cursor_.skip_many(count, width_of(element), "an array");
      }
      check_length(start);
      while (!to_come.empty() && to_come.back() == 0) to_come.pop_back();
      if (to_come.empty()) return;
      --to_come.back();
      element = read_type(key);
      count = cursor_.u64("an array's length");
    }
  }

  void read_alignment() {
    const auto at = header_.values.find("general.alignment");
    if (at == header_.values.end()) return;
    const Value& value = at->second;
    if (value.type != GgufType::u32) {
      cursor_.fail(value.offset, "general.alignment must be a u32, got a value of type " + type_name(value));
    }
    Cursor cursor = cursor_;
    cursor.go_to(value.offset);
    header_.alignment = cursor.u32("general.alignment");
    if (!std::has_single_bit(header_.alignment) || header_.alignment > most_alignment) {
      cursor_.fail(value.offset, "general.alignment must be a power of 2 up to " + text(most_alignment) + ", got " +
                                     text(header_.alignment));
    }
  }

  decltype(Header::tensors)::iterator read_tensor() {
    const std::uint64_t at = cursor_.at();
    const std::string name = read_name("a tensor's name", longest_name);
    Tensor tensor;
    const std::uint64_t rank_at = cursor_.at();
    const std::uint32_t rank = cursor_.u32("a tensor's number of dimensions");
    if (rank > most_dimensions) {
      cursor_.fail(rank_at, "the tensor " + json::quoted(name) + " must have at most 4 dimensions, got " + text(rank));
    }
    for (std::uint32_t d = 0; d < rank; ++d) tensor.shape.push_back(cursor_.u64("a tensor's extent"));
    const std::uint64_t type_at = cursor_.at();
    tensor.type = cursor_.u32("a tensor's type");
    check_size(name, type_at, tensor);
    tensor.offset = cursor_.u64("a tensor's offset");
    check_length(at);
    const auto [where, is_new] = header_.tensors.emplace(name, std::move(tensor));
    if (!is_new) cursor_.fail(at, "a tensor must be there once, got a second " + json::quoted(name));
    return where;
  }

  void check_size(const std::string& name, std::uint64_t at, Tensor& tensor) const {
    const std::string what = "the tensor " + json::quoted(name) + ' ';
    const TensorType* type = find_tensor_type(tensor.type);
    if (type == nullptr) cursor_.fail(at, what + "must have a type that ggml knows, got " + text(tensor.type));
    const std::uint64_t row = tensor.shape.empty() ? 1 : tensor.shape[0];
    if (row % type->block != 0) {
      cursor_.fail(at, what + "must have rows of whole " + type->name + " blocks of " + text(type->block) + ", got " +
                           text(row) + " numbers");
    }
    tensor.bytes = type->bytes;
    bool fits = multiply(tensor.bytes, row / type->block, tensor.bytes);
    // An extent of 0 would hide an overflow by the others.
    for (std::size_t d = 1; d < tensor.shape.size(); ++d) {
      fits = fits && multiply(tensor.bytes, tensor.shape[d], tensor.bytes);
    }
    std::uint64_t other = 1;
    for (const std::uint64_t extent : tensor.shape) fits = fits && (extent == 0 || multiply(other, extent, other));
    if (!fits) cursor_.fail(at, what + "must have fewer than 2^63 bytes");
  }

  /// Tensors follow one another, each padded to the alignment, as ggml wants them; the last one's end is in the file.
  void place(const std::vector<decltype(Header::tensors)::iterator>& order) {
    if (order.empty()) return;
    const std::uint64_t end = cursor_.at();
    const std::uint64_t start = end + (header_.alignment - end % header_.alignment) % header_.alignment;
    std::uint64_t expected = 0;
    for (const auto& at : order) {
      auto& [name, tensor] = *at;
      const std::string what = "the tensor " + json::quoted(name) + ' ';
      if (tensor.offset != expected) {
        cursor_.fail(end, what + "must begin where the one before it ends, at " + text(expected) +
                              " of the data, got " + text(tensor.offset));
      }
      std::uint64_t last = 0, next = 0;
      if (!add(start, expected, tensor.offset) || !add(tensor.offset, tensor.bytes, last) ||
          !add(expected, tensor.bytes, next) || !add(next, header_.alignment - 1, next)) {
        cursor_.fail(end, what + "must end below 2^63");
      }
      if (last > cursor_.at() + cursor_.left()) {
        cursor_.fail(end, what + "must end in the file, got bytes " + text(tensor.offset) + " to " + text(last) +
                              " of " + text(cursor_.at() + cursor_.left()) + ": the file is incomplete");
      }
      expected = next / header_.alignment * header_.alignment;
    }
  }

  Cursor cursor_;
  Header header_;
  std::uint64_t strings_ = 0;  // in arrays
};

}  // namespace

std::uint64_t width_of(GgufType type) { return widths[static_cast<std::uint32_t>(type)]; }
const char* type_name(GgufType type) { return type_names[static_cast<std::uint32_t>(type)]; }

std::string type_name(const Value& value) {
  return value.type == GgufType::array ? std::string("array of ") + type_name(value.element) : type_name(value.type);
}

const char* tensor_type_name(std::uint32_t type) {
  const TensorType* found = find_tensor_type(type);
  return found == nullptr ? nullptr : found->name;
}

Header parse_header(Source& source) { return Parser(source).parse(); }

std::vector<double> tensor_numbers(Source& source, const std::string& name, const Tensor& tensor) {
  Cursor cursor(source, tensor.offset);
  if (tensor.type != 0) {
    cursor.fail("the tensor " + json::quoted(name) + " must be F32, got " + tensor_type_name(tensor.type));
  }
  std::vector<double> numbers;
  for (std::uint64_t i = 0; i < tensor.bytes / 4; ++i) {
    numbers.push_back(std::bit_cast<float>(cursor.u32("a tensor's number")));
  }
  return numbers;
}

}  // namespace bearing::gguf

namespace bearing {

bool is_gguf(std::string_view first_bytes) {
  return first_bytes.starts_with(gguf::magic) || first_bytes.starts_with(gguf::magic_of_big_endian);
}

}  // namespace bearing
