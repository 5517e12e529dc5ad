#include "safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <bearing/error.hpp>
#include <charconv>
#include <limits>

#include "json_file.hpp"
#include "utf8.hpp"

namespace bearing {
namespace {

/// In the order in which the format's own library writes them.
constexpr std::array<StoredType, 22> types{
    {{"U64", 64},        {"I64", 64},    {"F64", 64},    {"C64", 64},    {"F32", 32}, {"U32", 32},
     {"I32", 32},        {"BF16", 16},   {"F16", 16},    {"U16", 16},    {"I16", 16}, {"F8_E5M2FNUZ", 8},
     {"F8_E4M3FNUZ", 8}, {"F8_E8M0", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"I8", 8},   {"U8", 8},
     {"F6_E3M2", 6},     {"F6_E2M3", 6}, {"F4", 4},      {"BOOL", 8}}};

}  // namespace

std::span<const StoredType> stored_types() { return types; }

namespace safetensors {
namespace {

constexpr std::string_view metadata_key = "__metadata__";

std::string bytes_text(std::uint64_t count) { return std::to_string(count) + (count == 1 ? " byte" : " bytes"); }

[[noreturn]] void fail_at(const std::string& file, std::uint64_t byte, const std::string& text) {
  throw ConfigError(file + ": byte " + std::to_string(byte) + ": " + text);
}

/// Takes the header's tokens, one after the other, and builds its entries. A token that may not stand there is a
/// problem, and ends the reading.
class Builder {
 public:
  bool Null() { return refuse("null"); }
  bool Bool(bool b) { return refuse(b ? "true" : "false"); }
  bool Int(int) { return refuse("a number"); }
  bool Uint(unsigned) { return refuse("a number"); }
  bool Int64(std::int64_t) { return refuse("a number"); }
  bool Uint64(std::uint64_t) { return refuse("a number"); }
  bool Double(double) { return refuse("a number"); }

  bool RawNumber(const char* s, rapidjson::SizeType n, bool) {
    const std::string_view text(s, n);
    if (state_ != State::extents && state_ != State::offsets) return refuse(json::quoted(text));
    std::uint64_t value = 0;
    const auto read = std::from_chars(s, s + n, value);
    // "-0" and "1e3" are numbers too, but no extents.
    if (read.ec != std::errc{} || read.ptr != s + n || value > most) {
      return fail(tensor() + (state_ == State::extents ? ": an extent" : ": an offset") +
                  " must be a whole number from 0 to 2^63 - 1, got " + json::quoted(text));
    }
    return state_ == State::extents ? add_extent(value) : add_offset(value);
  }

  bool String(const char* s, rapidjson::SizeType n, bool) {
    const std::string_view text(s, n);
    if (!utf8::is_text(text)) return fail(json::half_a_character);
    if (state_ == State::type) {
      const StoredType* type = find_type(text);
      if (type == nullptr)
        return fail(tensor() + ": dtype must be one of the format's (F32, BF16, I64, ...), got " + json::quoted(text));
      entry_.type = *type;
      return back_to(State::members);
    }
    if (state_ == State::metadata_value) {
      metadata_bytes_ += key_.size() + n;
      if (metadata_bytes_ > most_metadata) return fail("__metadata__ must have at most 16 MiB");
      header_.metadata[key_] = text;
      return back_to(State::metadata);
    }
    return refuse(json::quoted(text));
  }

  bool Key(const char* s, rapidjson::SizeType n, bool) {
    const std::string_view key(s, n);
    if (!utf8::is_text(key)) return fail(json::half_a_character);
    if (state_ == State::names) return open_name(key);
    if (state_ == State::metadata) {
      key_ = key;
      if (header_.metadata.size() == most_metadata_keys) {
        return fail("__metadata__ must have at most " + std::to_string(most_metadata_keys) + " keys, got more");
      }
      if (header_.metadata.contains(key_)) {
        return fail("__metadata__: " + json::quoted(key) + " must be there once, got it again");
      }
      return back_to(State::metadata_value);
    }
    return open_member(key);
  }

  bool StartObject() {
    switch (state_) {
      case State::start:
        return back_to(State::names);
      case State::entry:
        return back_to(State::members);
      case State::metadata_start:
        return back_to(State::metadata);
      default:
        return refuse("an object");
    }
  }

  bool EndObject(rapidjson::SizeType) {
    if (state_ == State::members) return close_entry();
    return back_to(state_ == State::metadata ? State::names : State::end);
  }

  bool StartArray() {
    if (state_ == State::shape) return back_to(State::extents);
    if (state_ == State::offset_start) return back_to(State::offsets);
    return refuse("an array");
  }

  bool EndArray(rapidjson::SizeType) {
    if (state_ == State::offsets && offsets_ != 2) {
      return fail(tensor() + ": data_offsets must be 2 numbers, got " + std::to_string(offsets_));
    }
    return back_to(State::members);
  }

  const std::string& problem() const { return problem_; }
  Header take() { return std::move(header_); }

 private:
  /// What may come next.
  enum class State {
    start,           ///< the header's '{'
    names,           ///< a tensor's name, or the end
    entry,           ///< a tensor's '{'
    members,         ///< dtype, shape, data_offsets, or the end of the tensor
    type,            ///< the name of a type
    shape,           ///< '['
    extents,         ///< an extent, or ']'
    offset_start,    ///< '['
    offsets,         ///< an offset, or ']'
    metadata_start,  ///< '{'
    metadata,        ///< a key, or '}'
    metadata_value,  ///< a text
    end
  };

  static constexpr std::uint64_t most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

  bool back_to(State state) {
    state_ = state;
    return true;
  }
  bool fail(std::string text) {
    problem_ = std::move(text);
    return false;
  }
  std::string tensor() const { return "tensor " + json::quoted(entry_.name); }

  bool refuse(const std::string& got) {
    switch (state_) {
      case State::start:
        return fail("the header must be an object, got " + got);
      case State::entry:
        return fail(tensor() + " must be an object, got " + got);
      case State::type:
        return fail(tensor() + ": dtype must be a string, got " + got);
      case State::shape:
        return fail(tensor() + ": shape must be an array, got " + got);
      case State::extents:
        return fail(tensor() + ": an extent must be a whole number, got " + got);
      case State::offset_start:
        return fail(tensor() + ": data_offsets must be an array, got " + got);
      case State::offsets:
        return fail(tensor() + ": an offset must be a whole number, got " + got);
      case State::metadata_start:
        return fail("__metadata__ must be an object, got " + got);
      default:
        return fail("__metadata__: " + json::quoted(key_) + " must be a string, got " + got);
    }
  }

  bool open_name(std::string_view key) {
    if (key == metadata_key) {
      if (has_metadata_) return fail("__metadata__ must be there once, got it again");
      has_metadata_ = true;
      return back_to(State::metadata_start);
    }
    if (header_.entries.size() == most_tensors) {
      return fail("must have at most " + std::to_string(most_tensors) + " tensors, got more");
    }
    entry_ = Entry{std::string(key), {}, {}, 0, 0};
    has_type_ = has_shape_ = has_offsets_ = false;
    return back_to(State::entry);
  }

  bool open_member(std::string_view key) {
    const bool is_type = key == "dtype", is_shape = key == "shape";
    if (!is_type && !is_shape && key != "data_offsets") {
      return fail(tensor() + ": must have dtype, shape and data_offsets, got " + json::quoted(key));
    }
    bool& seen = is_type ? has_type_ : is_shape ? has_shape_ : has_offsets_;
    if (seen) return fail(tensor() + ": " + std::string(key) + " must be there once, got it again");
    seen = true;
    offsets_ = 0;
    return back_to(is_type ? State::type : is_shape ? State::shape : State::offset_start);
  }

  bool add_extent(std::uint64_t value) {
    if (entry_.shape.size() == most_axes) return fail(tensor() + ": shape must have at most 32 extents, got more");
    entry_.shape.push_back(static_cast<Index>(value));
    return true;
  }

  bool add_offset(std::uint64_t value) {
    if (offsets_ == 2) return fail(tensor() + ": data_offsets must be 2 numbers, got more");
    (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    return true;
  }

  bool close_entry() {
    const char* missing = !has_type_ ? "dtype" : !has_shape_ ? "shape" : !has_offsets_ ? "data_offsets" : nullptr;
    if (missing != nullptr) return fail(tensor() + ": " + missing + " must be there");
    if (entry_.end < entry_.begin) {
      return fail(tensor() + ": data_offsets must not fall, got [" + std::to_string(entry_.begin) + ", " +
                  std::to_string(entry_.end) + "]");
    }
    std::uint64_t bytes = 0;
    if (!total_bytes(entry_.shape, entry_.type.bits, bytes)) {
      return fail(tensor() + ": shape " + shape_text(entry_.shape) + " of " + std::string(entry_.type.name) +
                  " must fill whole bytes, fewer than 2^60, also without its extents of 0");
    }
    if (bytes != entry_.end - entry_.begin) {
      return fail(tensor() + ": shape " + shape_text(entry_.shape) + " of " + std::string(entry_.type.name) +
                  " needs " + bytes_text(bytes) + ", but data_offsets [" + std::to_string(entry_.begin) + ", " +
                  std::to_string(entry_.end) + "] have " + std::to_string(entry_.end - entry_.begin));
    }
    kept_ += entry_.name.size() + entry_.shape.size() * sizeof(Index);
    if (kept_ > most_names) return fail("names and shapes must have at most 24 MiB together, got more");
    entry_.shape.shrink_to_fit();
    header_.entries.push_back(std::move(entry_));
    return back_to(State::names);
  }

  Header header_;
  Entry entry_;
  std::string key_, problem_;
  State state_ = State::start;
  std::size_t metadata_bytes_ = 0, kept_ = 0, offsets_ = 0;
  bool has_type_ = false, has_shape_ = false, has_offsets_ = false, has_metadata_ = false;
};

/// UTF-8 without NUL, and no string so long that reading it would cost more than the file is worth.
void check_text(std::string_view text, const std::string& file) {
  bool inside = false, escaped = false;
  std::size_t opened = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8::first_character(text.substr(at, 4)).bytes;
    if (length == 0) fail_at(file, preamble + at, "the header must be UTF-8, got something else");
    const char c = text[at];
    if (c == '\0') fail_at(file, preamble + at, "the header must be JSON text, got a NUL byte");
    if (c == '"' && !escaped) {
      inside = !inside;
      opened = at;
    }
    escaped = inside && c == '\\' && !escaped;
    if (inside && at - opened > longest_string) {
      fail_at(file, preamble + opened, "a string must have at most 4 MiB, got more");
    }
    at += length;
  }
}

/// One behind the other, from the first byte to the last.
void check_layout(const std::vector<Entry>& entries, std::uint64_t data_bytes, const std::string& file) {
  std::vector<const Entry*> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  const auto fail = [&](const Entry& entry, const std::string& text) {
    throw ConfigError(file + ": tensor " + json::quoted(entry.name) + ": " + text);
  };
  std::uint64_t next = 0;
  const Entry* before = nullptr;
  for (const Entry* entry : order) {
    if (entry->begin < next) {
      fail(*entry, "must begin at byte " + std::to_string(next) + " of the data, behind " + json::quoted(before->name) +
                       ", got " + std::to_string(entry->begin) + ": they overlap");
    }
    if (entry->begin > next) {
      fail(*entry, "must begin at byte " + std::to_string(next) + " of the data, got " + std::to_string(entry->begin) +
                       ": a hole of " + bytes_text(entry->begin - next));
    }
    if (entry->end > data_bytes) {
      fail(*entry, "ends at byte " + std::to_string(entry->end) + " of the data, but the file has only " +
                       std::to_string(data_bytes));
    }
    next = entry->end;
    before = entry;
  }
  if (next != data_bytes) {
    throw ConfigError(file + ": the tensors must fill the file: they have " + bytes_text(next) + ", got " +
                      bytes_text(data_bytes) + " of data");
  }
}

void check_names(const std::vector<Entry>& entries, const std::string& file) {
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](const Entry& a, const Entry& b) { return a.name == b.name; });
  if (twice != entries.end()) {
    throw ConfigError(file + ": tensor " + json::quoted(twice->name) + ": must be there once, got it again");
  }
}

}  // namespace

const StoredType* find_type(std::string_view name) {
  const auto at = std::find_if(types.begin(), types.end(), [&](const StoredType& type) { return type.name == name; });
  return at == types.end() ? nullptr : &*at;
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string out = "[";
  for (const Index extent : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
  return out + "]";
}

bool total_bytes(const std::vector<Index>& shape, int bits, std::uint64_t& bytes) {
  Index product = bits;
  bool empty = false;
  for (const Index extent : shape) {
    if (extent < 0) return false;
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, extent, &product)) {
      return false;
    }
  }
  bytes = empty ? 0 : static_cast<std::uint64_t>(product) / 8;
  return empty || product % 8 == 0;
}

std::uint64_t parse_length(std::string_view head, std::uint64_t file_size, const std::string& file) {
  if (file_size < preamble || head.size() < preamble) {
    throw ConfigError(file + ": not a safetensors file: it must begin with 8 bytes, its header's length, got " +
                      (file_size == 0 ? "an empty file" : bytes_text(file_size)));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < preamble; ++i) {
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(head[i])) << (8 * i);
  }
  if (length > max_header_length) {
    fail_at(file, 0, "the header must be at most 100000000 bytes long, got more");  // eight bytes of any file
  }
  if (length > file_size - preamble) {
    fail_at(file, 0,
            "the header is " + bytes_text(length) + " long, but the file has only " +
                std::to_string(file_size - preamble) + " more");
  }
  if (length < 2) fail_at(file, 0, "the header must be at least 2 bytes long, {}, got " + std::to_string(length));
  return length;
}

Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file) {
  if (text.empty() || text[0] != '{') {
    const std::string got =
        text.empty() ? "nothing" : json::quoted(text.substr(0, std::min<std::size_t>(text.size(), 16)));
    fail_at(file, preamble,
            "the header must begin with '{', got " + (utf8::first_character(text).bytes == 0 ? "no text" : got));
  }
  check_text(text, file);
  Builder builder;
  rapidjson::Reader reader;
  rapidjson::MemoryStream stream(text.data(), text.size());
  constexpr unsigned flags = rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag;
  if (!reader.Parse<flags>(stream, builder)) {
    const std::uint64_t at = preamble + reader.GetErrorOffset();
    if (!builder.problem().empty()) fail_at(file, at, builder.problem());
    fail_at(file, at,
            std::string("the header must be JSON: ") + rapidjson::GetParseError_En(reader.GetParseErrorCode()));
  }
  Header header = builder.take();
  std::sort(header.entries.begin(), header.entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  check_names(header.entries, file);
  check_layout(header.entries, data_bytes, file);
  return header;
}

std::string quoted_json(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (u < 0x20) {
      out += {'\\', 'u', '0', '0', digits[u >> 4], digits[u & 15]};
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string make_header(const std::vector<Entry>& entries, const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += quoted_json(metadata_key) + ":{";
    for (const auto& [key, value] : metadata) text += quoted_json(key) + ':' + quoted_json(value) + ',';
    text.back() = '}';
    text += ',';
  }
  for (const Entry& entry : entries) {
    text += quoted_json(entry.name) + ":{\"dtype\":\"" + std::string(entry.type.name) + "\",\"shape\":[";
    for (const Index extent : entry.shape) text += std::to_string(extent) + ',';
    if (!entry.shape.empty()) text.pop_back();
    text += "],\"data_offsets\":[" + std::to_string(entry.begin) + ',' + std::to_string(entry.end) + "]},";
  }
  if (text.size() > 1) text.pop_back();
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string out;
  for (std::size_t i = 0; i < preamble; ++i) out += static_cast<char>((text.size() >> (8 * i)) & 0xFF);
  return out + text;
}

}  // namespace safetensors
}  // namespace bearing
