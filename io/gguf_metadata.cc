#include "gguf_metadata.hpp"

#include <bit>
#include <charconv>
#include <cmath>

#include "utf8.hpp"

namespace bearing::gguf {
namespace {

constexpr std::string_view architecture_key = "general.architecture";
constexpr std::uint64_t most_whole = ~std::uint64_t{0} >> 1;  // what an Index holds

bool is_whole(GgufType type) { return width_of(type) != 0 && type != GgufType::f32 && type != GgufType::f64; }

bool is_signed(GgufType type) {
  return type == GgufType::i8 || type == GgufType::i16 || type == GgufType::i32 || type == GgufType::i64;
}

double as_written(float value) {
  if (!std::isfinite(value)) return static_cast<double>(value);
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  double written = 0;
  std::from_chars(digits, end, written);
  return written;
}

}  // namespace

Metadata::Metadata(Source& source, const Header& header, json::Notes& notes)
    : source_(source), header_(header), notes_(notes) {
  const Value* value = find(architecture_key);
  const std::string key(architecture_key);
  if (value == nullptr) notes_.fail(key, "must be there: it says whose keys the others are");
  if (value->type != GgufType::string || value->count == 0 || value->count > longest_word) {
    wrong(key, "a name of 1 to 256 bytes", type_name(*value));
  }
  architecture_ = text(*value);
  if (!utf8::is_text(architecture_)) wrong(key, "UTF-8", json::quoted(architecture_));
}

const Value* Metadata::find(std::string_view full_key) const {
  const auto at = header_.values.find(full_key);
  return at == header_.values.end() ? nullptr : &at->second;
}

void Metadata::wrong(std::string_view full_key, const std::string& wanted, const std::string& got) const {
  notes_.fail(std::string(full_key), "must be " + wanted + ", got " + got);
}

std::string Metadata::text(const Value& value) const {
  Cursor cursor(source_, value.offset);
  return std::string(cursor.take(value.count, "a string"));
}

bool Metadata::is_array(std::string_view key) const {
  const Value* value = find(full(key));
  return value != nullptr && value->type == GgufType::array;
}

Index Metadata::whole(std::string_view full_key, GgufType type, Cursor& cursor, Index least, Index most) const {
  const std::uint64_t width = width_of(type);
  std::uint64_t bits = cursor.number(width, "a number");
  if (is_signed(type) && width < 8 && (bits >> (8 * width - 1)) != 0) bits |= ~std::uint64_t{0} << (8 * width);
  const bool huge = !is_signed(type) && bits > most_whole;
  const auto number = static_cast<Index>(bits);
  if (huge || number < least || number > most) {
    wrong(full_key, json::in_range(least, most), huge ? std::to_string(bits) : std::to_string(number));
  }
  return number;
}

std::optional<Index> Metadata::integer(std::string_view key, Index least, Index most) const {
  const std::string name = full(key);
  const Value* value = find(name);
  if (value == nullptr) return {};
  if (!is_whole(value->type) || value->type == GgufType::boolean) {
    wrong(name, json::in_range(least, most), type_name(*value));
  }
  Cursor cursor(source_, value->offset);
  return whole(name, value->type, cursor, least, most);
}

Index Metadata::needed(std::string_view key, Index least, Index most) const {
  const auto value = integer(key, least, most);
  if (!value) notes_.fail(full(key), "must be there: " + json::in_range(least, most));
  return *value;
}

std::optional<double> Metadata::number(std::string_view key, json::Range range) const {
  const std::string name = full(key);
  const Value* value = find(name);
  if (value == nullptr) return {};
  if (value->type != GgufType::f32 && value->type != GgufType::f64) {
    wrong(name, json::in_range(range) + " of type f32", type_name(*value));
  }
  Cursor cursor(source_, value->offset);
  const double number = value->type == GgufType::f32 ? as_written(std::bit_cast<float>(cursor.u32("a number")))
                                                     : std::bit_cast<double>(cursor.u64("a number"));
  if (!range.has(number)) wrong(name, json::in_range(range), json::shortest(number));
  return number;
}

std::optional<bool> Metadata::flag(std::string_view key) const {
  const std::string name = full(key);
  const Value* value = find(name);
  if (value == nullptr) return {};
  if (value->type != GgufType::boolean) wrong(name, "true or false", type_name(*value));
  Cursor cursor(source_, value->offset);
  return cursor.number(1, "a flag") != 0;
}

std::optional<std::string> Metadata::word(std::string_view key) const {
  const std::string name = full(key);
  const Value* value = find(name);
  if (value == nullptr) return {};
  if (value->type != GgufType::string) wrong(name, "a string", type_name(*value));
  if (value->count > longest_word) wrong(name, "a string of at most 256 bytes", std::to_string(value->count));
  return text(*value);
}

std::optional<std::vector<Index>> Metadata::integers(std::string_view key, Index least, Index most) const {
  const std::string name = full(key);
  const Value* value = find(name);
  if (value == nullptr) return {};
  if (value->type != GgufType::array || !is_whole(value->element)) {
    wrong(name, "an array of whole numbers or flags", type_name(*value));
  }
  if (value->count > most_entries) wrong(name, "an array of at most 65536 entries", std::to_string(value->count));
  std::vector<Index> numbers;
  Cursor cursor(source_, value->offset);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    numbers.push_back(whole(name, value->element, cursor, least, most));
  }
  return numbers;
}

std::optional<std::vector<Index>> Metadata::per_layer(std::string_view key, Index layers, Index least,
                                                      Index most) const {
  if (!has(key)) return {};
  if (!is_array(key)) return std::vector<Index>(static_cast<std::size_t>(layers), *integer(key, least, most));
  auto numbers = integers(key, least, most);
  if (std::ssize(*numbers) != layers) {
    wrong(full(key), std::to_string(layers) + " numbers, one per layer", std::to_string(numbers->size()));
  }
  return numbers;
}

const Tensor* Metadata::tensor(std::string_view name) const {
  const auto at = header_.tensors.find(name);
  return at == header_.tensors.end() ? nullptr : &at->second;
}

std::optional<std::vector<double>> Metadata::factors(const std::string& name, Index least, Index most) const {
  const Tensor* found = tensor(name);
  if (found == nullptr) return {};
  const bool flat = found->shape.size() == 1;
  const std::uint64_t entries = flat ? found->shape[0] : 0;
  if (!flat || entries < static_cast<std::uint64_t>(least) || entries > static_cast<std::uint64_t>(most)) {
    const std::string wanted =
        least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
    notes_.fail(name, "must have one dimension of " + wanted + " numbers, one per pair, got " +
                          (flat ? std::to_string(entries) : std::to_string(found->shape.size()) + " dimensions"));
  }
  std::vector<double> numbers = tensor_numbers(source_, name, *found);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!(numbers[i] > 0) || !std::isfinite(numbers[i])) {
      notes_.fail(name, "must have numbers above 0, got " + json::shortest(numbers[i]) + " at " + std::to_string(i));
    }
  }
  return numbers;
}

}  // namespace bearing::gguf
