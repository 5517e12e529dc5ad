#include "json_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <system_error>

#include "posix.hpp"
#include "utf8.hpp"

namespace bearing::json {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::size_t most_warnings = 100;
constexpr std::size_t longest_quote = 40;

// Numbers come as text: RapidJSON's own conversion meets undefined behaviour on some zeros (0e+300).
constexpr unsigned parse_flags =
    rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag | rapidjson::kParseNumbersAsStringsFlag;

/// Builds the document, each number rounded to nearest or, where it is whole, exact. Stops where there are too many
/// values or levels.
struct Builder {
  rapidjson::Document& to;
  const Limits& limits;
  Index values = 0;
  int level = 0;
  std::string problem = {};

  bool Null() { return count() && to.Null(); }
  bool Bool(bool b) { return count() && to.Bool(b); }
  bool Int(int n) { return count() && to.Int(n); }
  bool Uint(unsigned n) { return count() && to.Uint(n); }
  bool Int64(std::int64_t n) { return count() && to.Int64(n); }
  bool Uint64(std::uint64_t n) { return count() && to.Uint64(n); }
  bool Double(double x) { return count() && to.Double(x); }
  bool String(const char* s, rapidjson::SizeType n, bool copy) { return text(s, n) && to.String(s, n, copy); }
  bool Key(const char* s, rapidjson::SizeType n, bool copy) { return text(s, n) && to.Key(s, n, copy); }
  bool StartObject() { return enter() && to.StartObject(); }
  bool StartArray() { return enter() && to.StartArray(); }
  bool EndObject(rapidjson::SizeType n) { return --level, to.EndObject(n); }
  bool EndArray(rapidjson::SizeType n) { return --level, to.EndArray(n); }

  bool RawNumber(const char* s, rapidjson::SizeType n, bool) {
    const char* end = s + n;
    std::int64_t whole = 0;
    if (const auto read = std::from_chars(s, end, whole); read.ec == std::errc() && read.ptr == end) {
      return Int64(whole);
    }
    double x = 0;
    const auto read = std::from_chars(s, end, x);
    if (read.ec == std::errc::result_out_of_range) {  // as Python's json: infinite, or zero where the number is tiny
      const std::string_view text(s, n);
      const bool tiny = text.find("e-") != text.npos || text.find("E-") != text.npos || text.starts_with("0.") ||
                        text.starts_with("-0.");
      x = tiny ? 0.0 : std::numeric_limits<double>::infinity();
      if (text.starts_with('-')) x = -x;
    }
    return Double(x);
  }

  bool count() {
    if (++values > limits.values) {
      problem = "must have at most " + std::to_string(limits.values) + " values and keys, got more";
    }
    return problem.empty();
  }
  /// RapidJSON refuses a lone first half of a surrogate pair, and takes a lone second one.
  bool text(const char* s, rapidjson::SizeType n) {
    if (!utf8::is_text({s, n})) problem = half_a_character;
    return problem.empty() && count();
  }
  bool enter() {
    if (++level > most_levels) problem = "must be nested at most 128 levels deep, got more";
    return problem.empty() && count();
  }
};

[[noreturn]] void fail_at(const Notes& notes, std::string_view text, std::size_t offset, const std::string& what) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const std::string place =
      notes.file() + ":" + std::to_string(line) + ":" + std::to_string(before.size() - line_begin + 1) + ": ";
  throw ConfigError(place + what);
}

using utf8::printable;

}  // namespace

std::string quoted(std::string_view text) {
  if (text.size() <= longest_quote) return '"' + printable(text) + '"';
  std::size_t end = longest_quote;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole UTF-8 characters only
  return '"' + printable(text.substr(0, end)) + "…\"";
}

namespace {

/// A pointer may hold a key of any length; a message should not.
std::string short_pointer(const std::string& pointer) {
  return pointer.size() <= 200 ? printable(pointer) : quoted(pointer).substr(1);
}

}  // namespace

void Notes::fail(const std::string& pointer, const std::string& text) const {
  throw ConfigError(file_ + ": " + (pointer.empty() ? "" : short_pointer(pointer) + ": ") + text);
}

void Notes::warn(const std::string& pointer, const std::string& text, Weight weight) {
  if (warnings_.size() > most_warnings) return;
  if (warnings_.size() == most_warnings) {
    warnings_.push_back({{"", "there are more warnings than are kept"}, Weight::slight});
    return;
  }
  ConfigWarning warning{short_pointer(pointer), text};
  // Layer types that share a dictionary read it once each.
  const bool said = std::any_of(warnings_.begin(), warnings_.end(), [&](const Weighed& other) {
    return other.warning.pointer == warning.pointer && other.warning.text == warning.text;
  });
  if (!said) warnings_.push_back({std::move(warning), weight});
}

std::vector<ConfigWarning> Notes::take() {
  std::stable_sort(warnings_.begin(), warnings_.end(),
                   [](const Weighed& a, const Weighed& b) { return a.weight < b.weight; });
  std::vector<ConfigWarning> all;
  for (Weighed& one : warnings_) all.push_back(std::move(one.warning));
  warnings_.clear();
  return all;
}

std::string read_text(const std::string& path, const Limits& limits) {
  const posix::KeepErrno keep;
  posix::check_path(path);
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    throw ConfigError(path + ": must be a readable file, got: " + std::generic_category().message(errno));
  }
  if (S_ISDIR(status.st_mode)) throw ConfigError(path + ": must be a file, got a directory");
  if (!S_ISREG(status.st_mode)) throw ConfigError(path + ": must be a regular file, got a device or pipe");
  const auto too_large = [&](auto bytes) {
    return ConfigError(path + ": must be at most " + std::to_string(limits.mebibytes) + " MiB, got " +
                       std::to_string(bytes) + " bytes");
  };
  if (static_cast<std::size_t>(status.st_size) > limits.mebibytes << 20) throw too_large(status.st_size);

  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (!file) throw ConfigError(path + ": must be a readable file, got: " + std::generic_category().message(errno));
  // One byte more than the file is said to have: one that grows meanwhile is noticed.
  std::string text(static_cast<std::size_t>(status.st_size) + 1, '\0');
  const std::size_t got = std::fread(text.data(), 1, text.size(), file.get());
  if (std::ferror(file.get()) != 0) throw ConfigError(path + ": cannot be read");
  if (got == text.size()) throw ConfigError(path + ": must not change while it is read, but grew");
  text.resize(got);
  return text;
}

Document::Document(const std::string& text, Notes& notes, const Limits& limits) {
  if (text.size() > limits.mebibytes << 20) {
    notes.fail("", "must be at most " + std::to_string(limits.mebibytes) + " MiB, got " + std::to_string(text.size()) +
                       " bytes");
  }
  std::size_t begin = 0;
  if (text.starts_with(byte_order_mark)) {
    begin = byte_order_mark.size();
    notes.warn("", "the file begins with a byte order mark, which Python's json module refuses; it is skipped");
  }
  if (text.find_first_not_of(" \t\r\n", begin) == std::string::npos)
    notes.fail("", "must hold JSON, got an empty file");
  // RapidJSON would take a NUL for the end.
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos) {
    fail_at(notes, text, nul, "must be JSON text, got a NUL byte");
  }

  // RapidJSON's own check of the encoding reads past the end of a text that stops within a character.
  for (std::size_t at = begin; at < text.size();) {
    const std::size_t length = utf8::first_character(std::string_view(text).substr(at)).bytes;
    if (length == 0) fail_at(notes, text, at, "must be UTF-8, got something else");
    at += length;
  }

  auto build = [&](rapidjson::Document& document) {
    Builder builder{document, limits};
    rapidjson::Reader reader;
    rapidjson::StringStream stream(text.c_str() + begin);
    if (reader.Parse<parse_flags>(stream, builder)) return true;
    const std::string what = !builder.problem.empty() ? builder.problem
                                                      : std::string("must be JSON: ") +
                                                            rapidjson::GetParseError_En(reader.GetParseErrorCode());
    fail_at(notes, text, begin + reader.GetErrorOffset(), what);
  };
  document_.Populate(build);
}

std::string shortest(double value) {
  char text[64];
  // 1000000 reads better than 1e+06, which is what to_chars takes for shorter.
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  const auto end = whole ? std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, 0).ptr
                         : std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string found(const rapidjson::Value& value) {
  if (value.IsNull()) return "null";
  if (value.IsBool()) return value.GetBool() ? "true" : "false";
  if (value.IsString()) return quoted({value.GetString(), value.GetStringLength()});
  if (value.IsArray()) return "an array of " + std::to_string(value.Size());
  if (value.IsObject()) return "an object";
  if (value.IsInt64()) return std::to_string(value.GetInt64());
  if (value.IsUint64()) return std::to_string(value.GetUint64());
  return shortest(value.GetDouble());
}

std::string in_range(Range range) {
  if (range.least == positive.least) return "a number above 0";
  if (range.above) return "a number above " + shortest(range.least) + ", at most " + shortest(range.most);
  return "a number from " + shortest(range.least) + " to " + shortest(range.most);
}

std::optional<double> as_number(const rapidjson::Value& value, Range range) {
  if (!value.IsNumber()) return {};
  const double number = value.GetDouble();
  return range.has(number) ? std::optional<double>(number) : std::nullopt;
}

std::optional<Index> as_integer(const rapidjson::Value& value, Index least, Index most) {
  if (value.IsInt64()) {
    const Index n = value.GetInt64();
    return n >= least && n <= most ? std::optional<Index>(n) : std::nullopt;
  }
  const auto number = as_number(value, {static_cast<double>(least), static_cast<double>(most)});
  if (!number || *number != std::floor(*number)) return {};
  return static_cast<Index>(*number);
}

std::string in_range(Index least, Index most) {
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

Object::Object(const rapidjson::Value& value, std::string pointer, Notes& notes)
    : value_(&value), pointer_(std::move(pointer)), notes_(&notes) {
  if (!value.IsObject()) notes_->fail(pointer_, "must be an object, got " + found(value));
  if (value.MemberCount() > most_keys) {
    notes_->fail(pointer_, "must have at most 10000 keys, got " + std::to_string(value.MemberCount()));
  }
  std::vector<Member> members;
  members.reserve(value.MemberCount());
  for (auto one = value.MemberBegin(); one != value.MemberEnd(); ++one) {
    members.push_back({{one->name.GetString(), one->name.GetStringLength()}, &one->value});
  }
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.key < b.key; });
  for (std::size_t i = 1; i < members.size(); ++i) {
    const std::string_view key = members[i].key;
    if (key != members[i - 1].key || (i > 1 && key == members[i - 2].key)) continue;
    warn(key, "the key is there more than once; the last one counts");
  }
  sorted_ = std::make_shared<const std::vector<Member>>(std::move(members));
}

const rapidjson::Value* Object::member(std::string_view key) const {
  const auto behind = std::upper_bound(sorted_->begin(), sorted_->end(), key,
                                       [](std::string_view wanted, const Member& one) { return wanted < one.key; });
  return behind != sorted_->begin() && std::prev(behind)->key == key ? std::prev(behind)->value : nullptr;
}

const rapidjson::Value* Object::find(std::string_view key) const {
  const rapidjson::Value* value = member(key);
  return value == nullptr || value->IsNull() ? nullptr : value;
}

std::string_view Object::spelled(const std::vector<std::string_view>& spellings) const {
  for (std::string_view key : spellings) {
    if (has(key)) return key;
  }
  return {};
}

std::vector<std::string_view> Object::keys() const {
  std::vector<std::string_view> names;
  names.reserve(value_->MemberCount());
  for (auto member = value_->MemberBegin(); member != value_->MemberEnd(); ++member) {
    names.emplace_back(member->name.GetString(), member->name.GetStringLength());
  }
  return names;
}

std::string Object::pointer(std::string_view key) const {
  std::string out = pointer_ + "/";
  for (char c : key) {  // RFC 6901
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

void Object::wrong(std::string_view key, const std::string& wanted) const {
  const rapidjson::Value* value = find(key);
  notes_->fail(pointer(key), "must be " + wanted + ", got " + (value == nullptr ? "nothing" : found(*value)));
}

void Object::missing(std::string_view key, const std::string& wanted) const {
  notes_->fail(pointer(key), "must be there (" + wanted + "), got nothing");
}

std::optional<double> Object::number(std::string_view key, Range range) const {
  const rapidjson::Value* value = find(key);
  if (value == nullptr) return {};
  const auto number = as_number(*value, range);
  if (!number) wrong(key, in_range(range));
  return number;
}

std::optional<Index> Object::integer(std::string_view key, Index least, Index most) const {
  const rapidjson::Value* value = find(key);
  if (value == nullptr) return {};
  const auto number = as_integer(*value, least, most);
  if (!number) wrong(key, in_range(least, most));
  return number;
}

std::optional<bool> Object::flag(std::string_view key) const {
  const rapidjson::Value* value = find(key);
  if (value == nullptr) return {};
  if (!value->IsBool()) wrong(key, "true or false");
  return value->GetBool();
}

std::optional<std::string> Object::text(std::string_view key, std::size_t longest) const {
  const rapidjson::Value* value = find(key);
  if (value == nullptr) return {};
  if (!value->IsString()) wrong(key, "a string");
  if (value->GetStringLength() > longest) {
    notes_->fail(pointer(key), "must be a string of at most " + std::to_string(longest) + " bytes, got " +
                                   std::to_string(value->GetStringLength()));
  }
  return std::string(value->GetString(), value->GetStringLength());
}

std::optional<Object> Object::object(std::string_view key) const {
  const rapidjson::Value* value = find(key);
  if (value == nullptr) return {};
  return Object(*value, pointer(key), *notes_);
}

const rapidjson::Value* Object::array(std::string_view key, std::size_t most_entries, const char* of) const {
  const rapidjson::Value* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->IsArray() || value->Size() > most_entries) {
    wrong(key, std::string("an array of at most ") + std::to_string(most_entries) + " " + of);
  }
  return value;
}

std::optional<std::vector<double>> Object::numbers(std::string_view key, std::size_t most_entries, Range range) const {
  const rapidjson::Value* value = array(key, most_entries, "numbers");
  if (value == nullptr) return {};
  std::vector<double> out;
  for (const auto& entry : value->GetArray()) {
    const auto number = as_number(entry, range);
    if (!number) {
      notes_->fail(pointer(key) + "/" + std::to_string(out.size()),
                   "must be " + in_range(range) + ", got " + found(entry));
    }
    out.push_back(*number);
  }
  return out;
}

std::optional<std::vector<Index>> Object::integers(std::string_view key, std::size_t most_entries, Index least,
                                                   Index most) const {
  const rapidjson::Value* value = array(key, most_entries, "whole numbers");
  if (value == nullptr) return {};
  std::vector<Index> out;
  for (const auto& entry : value->GetArray()) {
    const auto number = as_integer(entry, least, most);
    if (!number) {
      notes_->fail(pointer(key) + "/" + std::to_string(out.size()),
                   "must be " + in_range(least, most) + ", got " + found(entry));
    }
    out.push_back(*number);
  }
  return out;
}

std::optional<std::vector<std::string>> Object::texts(std::string_view key, std::size_t most_entries) const {
  const rapidjson::Value* value = array(key, most_entries, "strings");
  if (value == nullptr) return {};
  std::vector<std::string> out;
  for (const auto& entry : value->GetArray()) {
    if (!entry.IsString()) {
      notes_->fail(pointer(key) + "/" + std::to_string(out.size()), "must be a string, got " + found(entry));
    }
    out.emplace_back(entry.GetString(), entry.GetStringLength());
  }
  return out;
}

std::optional<std::vector<Object>> Object::objects(std::string_view key, std::size_t most_entries) const {
  const rapidjson::Value* value = array(key, most_entries, "objects");
  if (value == nullptr) return {};
  std::vector<Object> out;
  for (const auto& entry : value->GetArray()) {
    const std::string at = pointer(key) + "/" + std::to_string(out.size());
    if (!entry.IsObject()) notes_->fail(at, "must be an object, got " + found(entry));
    out.emplace_back(entry, at, *notes_);
  }
  return out;
}

}  // namespace bearing::json
