#include "npy_header.hpp"

#include <algorithm>
#include <bearing/error.hpp>
#include <bit>
#include <charconv>
#include <limits>

namespace bearing::npy {
namespace {

static_assert(std::endian::native == std::endian::little,
              "bearing::io needs a little-endian machine: numbers of .npy files are as they lie");

constexpr std::string_view magic{"\x93NUMPY", 6};
constexpr std::size_t max_rank = 32;

/// What was found, fit to be printed: quoted, cut at 24 characters, anything but plain ASCII as \xNN.
std::string quote(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "'";
  for (char c : text.substr(0, 24)) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 0x20 && u < 0x7F) {
      out += c;
    } else {
      out += {'\\', 'x', digits[u >> 4], digits[u & 15]};
    }
  }
  return out + (text.size() > 24 ? "…'" : "'");
}

/// Reads the header's text, a Python dictionary literal of three known keys, with a cursor that cannot leave it.
class Parser {
 public:
  Parser(std::string_view text, std::uint64_t offset, const std::string& file)
      : text_(text), offset_(offset), file_(file) {}

  [[noreturn]] void fail(std::size_t at, const std::string& wanted) const {
    const std::string found = at < text_.size() ? quote(text_.substr(at)) : "the end of the header";
    throw ConfigError(file_ + ": byte " + std::to_string(offset_ + at) + ": " + wanted + ", got " + found);
  }

  /// Where the next word begins.
  std::size_t at() {
    skip_space();
    return at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c, const char* where) {
    if (!accept(c)) fail(at_, std::string("'") + c + "' must " + where);
  }

  void expect_end() {
    skip_space();
    if (at_ != text_.size()) fail(at_, "nothing but spaces may follow the header's '}'");
  }

  /// 'text' or "text", without escapes: none of the words we look for has one.
  std::string_view string(const char* what) {
    skip_space();
    const std::size_t start = at_;
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) {
      fail(start, std::string(what) + " must be a quoted string");
    }
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) fail(start, std::string(what) + ": the quote must be closed");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.find('\\') != std::string_view::npos) fail(start, std::string(what) + " must not have escapes");
    at_ = end + 1;
    return inside;
  }

  bool boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return word == "True";
      }
    }
    fail(at_, "'fortran_order' must be True or False");
  }

  std::vector<Index> shape() {
    expect('(', "open the shape");
    std::vector<Index> extents;
    while (!accept(')')) {
      if (extents.size() == max_rank) fail(at_, "'shape' must have at most 32 extents");
      extents.push_back(extent());
      if (accept(',')) continue;
      // (3) is a number in Python; NumPy writes (3,).
      if (extents.size() == 1) fail(at_, "a shape of one extent must be written with a comma, as in (3,)");
      expect(')', "close the shape");
      break;
    }
    return extents;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  Index extent() {
    skip_space();
    const char* first = text_.data() + at_;
    Index value = 0;
    const auto [last, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail(at_, "an extent is too large: it must be below 2^63");
    if (error != std::errc{} || value < 0) fail(at_, "an extent must be a whole number from 0 up");
    at_ += static_cast<std::size_t>(last - first);
    return value;
  }

  std::string_view text_;
  std::uint64_t offset_;
  const std::string& file_;
  std::size_t at_ = 0;
};

/// '<f4' → "f4", once the byte order is known to be ours.
std::string parse_descr(Parser& parser) {
  const std::size_t start = parser.at();
  if (parser.accept('[')) {
    parser.fail(start, "'descr' must name one type of number; arrays with named fields are not supported");
  }
  const std::string_view descr = parser.string("'descr'");
  if (descr.size() < 2) parser.fail(start, "'descr' must be a type such as '<f4'");
  const char order = descr[0];
  const std::string_view dtype = descr.substr(1);
  if (dtype[0] == 'O') parser.fail(start, "'descr' must not be 'O': pickled Python objects are never loaded");
  if (order == '>') parser.fail(start, "the data must be little-endian ('<'), not big-endian");
  if (order != '<' && order != '|') parser.fail(start, "'descr' must begin with '<' or '|'");
  const std::uint64_t size = item_size(dtype);
  if (size == 0) parser.fail(start, "'descr' must be one of b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 V1 to V16 after '<'");
  if (order == '|' && size > 1 && dtype[0] != 'V') {
    parser.fail(start, "'|' (no byte order) goes only with one-byte types and V");
  }
  return std::string(dtype);
}

struct Preamble {
  std::uint64_t header_offset, header_length;
};

Preamble parse_preamble(std::string_view head, std::uint64_t file_size, const std::string& file) {
  const auto fail = [&](std::uint64_t at, const std::string& text) {
    throw ConfigError(file + ": byte " + std::to_string(at) + ": " + text);
  };
  if (head.substr(0, magic.size()) != magic) {
    fail(0, "not a .npy file: it must begin with '\\x93NUMPY', got " +
                (head.empty() ? std::string("an empty file") : quote(head.substr(0, magic.size()))));
  }
  const auto byte = [&](std::size_t i) { return static_cast<std::uint64_t>(static_cast<unsigned char>(head[i])); };
  if (head.size() < 8) fail(head.size(), "the format's version must follow, got the end of the file");
  const std::uint64_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    fail(6, "the format must be 1.0, 2.0 or 3.0, got " + std::to_string(major) + "." + std::to_string(minor));
  }
  const std::size_t width = major == 1 ? 2 : 4;
  if (head.size() < 8 + width) fail(head.size(), "the header's length must follow, got the end of the file");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < width; ++i) length |= byte(8 + i) << (8 * i);
  if (length > max_header_length) {
    fail(8, "the header must be at most 10,000 bytes long, got " + std::to_string(length));
  }
  const std::uint64_t left = file_size - (8 + width);
  if (length > left) {
    fail(8, "the header is " + std::to_string(length) + " bytes long but the file has only " + std::to_string(left) +
                " bytes left");
  }
  return {8 + width, length};
}

}  // namespace

std::string joined(const std::vector<Index>& shape) {
  std::string out;
  for (Index extent : shape) {
    if (!out.empty()) out += ", ";
    out += std::to_string(extent);
  }
  return out;
}

std::uint64_t item_size(std::string_view dtype) {
  if (dtype.size() < 2 || dtype.size() > 3 || dtype[1] == '0') return 0;
  std::uint64_t size = 0;
  const auto [last, error] = std::from_chars(dtype.data() + 1, dtype.data() + dtype.size(), size);
  if (error != std::errc{} || last != dtype.data() + dtype.size()) return 0;
  const bool power_to_8 = size == 1 || size == 2 || size == 4 || size == 8;
  switch (dtype[0]) {
    case 'b':
      return size == 1 ? size : 0;
    case 'i':
    case 'u':
      return power_to_8 ? size : 0;
    case 'f':
      return power_to_8 && size > 1 ? size : 0;
    case 'V':
      return size <= 16 ? size : 0;
    default:
      return 0;
  }
}

bool total_bytes(const std::vector<Index>& shape, std::uint64_t item, std::uint64_t& bytes) {
  Index product = static_cast<Index>(item);
  bool empty = false;
  for (Index extent : shape) {
    if (extent < 0) return false;
    if (extent == 0) {
      empty = true;
    } else if (extent > std::numeric_limits<Index>::max() / product) {
      return false;
    } else {
      product *= extent;
    }
  }
  bytes = empty ? 0 : static_cast<std::uint64_t>(product);
  return true;
}

Header parse_header(std::string_view head, std::uint64_t file_size, const std::string& file) {
  const auto [offset, length] =
      parse_preamble(head.substr(0, std::min<std::uint64_t>(head.size(), file_size)), file_size, file);
  Parser parser(head.substr(offset, length), offset, file);
  Header header;
  header.data_offset = offset + length;
  bool has_descr = false, has_order = false, has_shape = false;
  parser.expect('{', "open the header");
  while (!parser.accept('}')) {
    const std::size_t start = parser.at();
    const std::string_view key = parser.string("a key");
    bool* seen = key == "descr"           ? &has_descr
                 : key == "fortran_order" ? &has_order
                 : key == "shape"         ? &has_shape
                                          : nullptr;
    if (seen == nullptr) parser.fail(start, "the keys must be 'descr', 'fortran_order' and 'shape'");
    if (*seen) parser.fail(start, "a key must appear only once");
    *seen = true;
    parser.expect(':', "follow the key");
    if (seen == &has_descr) {
      header.dtype = parse_descr(parser);
    } else if (seen == &has_shape) {
      header.shape = parser.shape();
    } else {
      const std::size_t value = parser.at();
      if (parser.boolean()) parser.fail(value, "Fortran order is not supported: save np.ascontiguousarray(x)");
    }
    if (parser.accept(',')) continue;
    parser.expect('}', "close the header");
    break;
  }
  parser.expect_end();
  if (!has_descr) parser.fail(0, "the key 'descr' must be there");
  if (!has_order) parser.fail(0, "the key 'fortran_order' must be there");
  if (!has_shape) parser.fail(0, "the key 'shape' must be there");

  const std::uint64_t left = file_size - header.data_offset;
  const auto fail = [&](const std::string& text) {
    throw ConfigError(file + ": byte " + std::to_string(header.data_offset) + ": " + text);
  };
  if (!total_bytes(header.shape, item_size(header.dtype), header.data_bytes)) {
    fail("shape [" + joined(header.shape) + "] of " + header.dtype + " is too large: it must fit in 2^63 bytes");
  }
  if (header.data_bytes != left) {
    fail("shape [" + joined(header.shape) + "] of " + header.dtype + " needs " + std::to_string(header.data_bytes) +
         " bytes of data, got " + std::to_string(left));
  }
  return header;
}

std::string make_header(std::string_view dtype, const std::vector<Index>& shape) {
  std::string text = "{'descr': '";
  text += item_size(dtype) == 1 || dtype[0] == 'V' ? '|' : '<';
  text += dtype;
  text += "', 'fortran_order': False, 'shape': (";
  text += joined(shape);
  if (shape.size() == 1) text += ',';
  text += "), }";
  const std::size_t unpadded = 10 + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  text += '\n';
  std::string out(magic);
  out += {'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return out + text;
}

}  // namespace bearing::npy
