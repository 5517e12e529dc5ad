#include "encoding_spec.hpp"

#include <algorithm>
#include <bearing/catalog.hpp>
#include <charconv>
#include <cmath>

#include "arguments.hpp"

namespace bearing::tool {
namespace {

const std::vector<Readable>& readable() {
  static const std::vector<Readable> all = [] {
    std::vector<Readable> list;
    list_row_encodings(list);
    list_biases(list);
    list_terms(list);
    return list;
  }();
  return all;
}

const Readable& find_readable(const std::string& name) {
  for (const Readable& one : readable()) {
    if (name == one.name) return one;
  }
  if (inspect::find(name) != nullptr) {
    throw UsageError(fmt::format(
        "--encoding: {} acts on the input: add it to what queries, keys and values are projected from", name));
  }
  throw UsageError(fmt::format("--encoding: '{}' is not an encoding{}", name, suggestion(name, readable_names())));
}

/// "[buckets, heads] = [32, any]"
std::string extents_text(const Extents& extents) {
  std::vector<std::string> names, sizes;
  for (const Extent& extent : extents) {
    names.push_back(extent.name);
    const std::string size = extent.size == Extent::any ? "any" : fmt::format("{}", extent.size);
    sizes.push_back(extent.or_one && extent.size != 1 ? size + " or 1" : size);
  }
  return fmt::format("[{}] = [{}]", fmt::join(names, ", "), fmt::join(sizes, ", "));
}

}  // namespace

std::vector<std::string> readable_names() {
  std::vector<std::string> names;
  for (const Readable& one : readable()) names.push_back(one.name);
  return names;
}

double parse_number(const std::string& option, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || last != end || !std::isfinite(value)) {
    throw UsageError(fmt::format("{}: must be a finite number, got '{}'", option, text));
  }
  return value;
}

SpecText::SpecText(const std::string& spec) {
  const std::size_t colon = spec.find(':');
  name_ = spec.substr(0, colon);
  if (colon == std::string::npos) return;
  std::string left = spec.substr(colon + 1);
  if (left.find_first_not_of(" \t\n") != std::string::npos && left[left.find_first_not_of(" \t\n")] == '{') {
    if (name_ != "rope") fail("takes KEY=VALUE,...; only rope takes JSON");
    json_ = left;
    return;
  }
  while (true) {
    const std::size_t comma = left.find(','), equals = left.find('=');
    if (equals == 0 || equals >= std::min(comma, left.size())) {
      fail(fmt::format("must be followed by KEY=VALUE,KEY=VALUE,..., got '{}'", left.substr(0, comma)));
    }
    const std::string key = left.substr(0, equals);
    if (std::any_of(values_.begin(), values_.end(), [&](const Value& value) { return value.key == key; })) {
      fail(key + " is there twice");
    }
    values_.push_back({key, left.substr(equals + 1, comma == std::string::npos ? comma : comma - equals - 1)});
    if (values_.back().text.empty()) fail(key + ": must not be empty");
    if (comma == std::string::npos) break;
    left.erase(0, comma + 1);
  }
}

void SpecText::fail(const std::string& text) const { throw UsageError("--encoding " + name_ + ": " + text); }

void SpecText::missing(const std::string& key, const Extents& extents) const {
  std::vector<std::string> unused;
  for (const Value& value : values_) {
    if (!value.used) unused.push_back(value.key);
  }
  const std::string meant = closest(key, unused);
  fail(fmt::format("{}=FILE is missing: a .npy file of {}{}", key, extents_text(extents),
                   meant.empty() ? "" : fmt::format("; '{}' is not a key", meant)));
}

bool SpecText::given(const std::string& key) {
  known_.push_back(key);
  for (Value& value : values_) {
    if (value.key == key) return value.used = true;
  }
  return false;
}

std::string SpecText::text(const std::string& key, const std::string& otherwise) {
  if (!given(key)) return otherwise;
  return std::find_if(values_.begin(), values_.end(), [&](const Value& value) { return value.key == key; })->text;
}

Index SpecText::whole(const std::string& key, Index otherwise, Index lowest, Index highest) {
  if (!given(key)) return otherwise;
  return parse_index("--encoding " + name_ + ": " + key, text(key, ""), lowest, highest);
}

double SpecText::number(const std::string& key, double otherwise) {
  if (!given(key)) return otherwise;
  return parse_number("--encoding " + name_ + ": " + key, text(key, ""));
}

std::string SpecText::word(const std::string& key, const std::vector<std::string>& words, bool required) {
  if (!given(key)) {
    if (required) fail(fmt::format("{} must be given, there is no default: {}", key, fmt::join(words, " or ")));
    return words.front();
  }
  std::string got = text(key, "");
  if (std::find(words.begin(), words.end(), got) != words.end()) return got;
  fail(fmt::format("{} must be {}, got '{}'", key, fmt::join(words, " or "), got));
}

std::vector<std::pair<std::string, std::string>> SpecText::rest() {
  std::vector<std::pair<std::string, std::string>> left;
  for (Value& value : values_) {
    if (!value.used) left.emplace_back(value.key, value.text), value.used = true;
  }
  return left;
}

void SpecText::finish() {
  for (const Value& value : values_) {
    if (!value.used) unknown(value.key);
  }
}

void SpecText::unknown(const std::string& key) const {
  std::vector<std::string> keys;  // each once, as they were asked for
  for (const std::string& known : known_) {
    if (std::find(keys.begin(), keys.end(), known) == keys.end()) keys.push_back(known);
  }
  fail(fmt::format("'{}' is not a key{}; it takes {}", key, suggestion(key, keys),
                   keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "))));
}

std::vector<Index> fitted_shape(const std::string& what, const std::string& file, std::vector<Index> shape,
                                const Extents& extents) {
  const std::vector<Index> found = shape;
  if (shape.size() + 1 == extents.size() && extents[0].or_one) shape.insert(shape.begin(), 1);
  bool fits = shape.size() == extents.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) {
    const Extent& extent = extents[i];
    fits = extent.size == Extent::any ? shape[i] > 0 : shape[i] == extent.size || (extent.or_one && shape[i] == 1);
  }
  if (!fits) bad_file(file, fmt::format("{} must be {}, got {}", what, extents_text(extents), shape_text(found)));
  return shape;
}

template <class A>
void read_encoding(const std::string& spec, const CallShape& call, CallEncodings<A>& into) {
  SpecText text(spec);
  const Readable& one = find_readable(text.name());
  SpecReader<A> reader(text, call, into);
  try {
    if constexpr (std::is_same_v<A, double>) {
      one.in_double(reader);
    } else {
      one.in_float(reader);
    }
  } catch (const std::logic_error& error) {  // ShapeError, RangeError: what the numbers of the spec ask for
    text.fail(without_function(error.what()));
  }
  text.finish();
}

template void read_encoding(const std::string&, const CallShape&, CallEncodings<double>&);
template void read_encoding(const std::string&, const CallShape&, CallEncodings<float>&);

}  // namespace bearing::tool
