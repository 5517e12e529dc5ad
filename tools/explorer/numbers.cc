#include <charconv>
#include <cstdint>
#include <cstring>

// Numbers as text and back, which the page's JavaScript does exactly and in no space: libc++ 14 cannot read
// floating-point numbers, and its tables to write them are larger than all encodings together. numbers.js has the other
// half.

extern "C" {

[[clang::import_module("page"), clang::import_name("shortest")]] std::size_t page_shortest(double number, char* to);
[[clang::import_module("page"), clang::import_name("general")]] std::size_t page_general(double number, int digits,
                                                                                         char* to);
[[clang::import_module("page"), clang::import_name("fixed")]] std::size_t page_fixed(double number, int digits,
                                                                                     char* to);
/// As parseFloat() reads it, which takes what [-]1.5e[±]10 does and no more.
[[clang::import_module("page"), clang::import_name("number")]] double page_number(const char* first, std::size_t size);

}  // extern "C"

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

const char* past_digits(const char* at, const char* last) {
  while (at != last && is_digit(*at)) ++at;
  return at;
}

/// The end of [-]1.5e[±]10; `first` if there is no number.
const char* number_end(const char* first, const char* last) {
  const char* at = first != last && *first == '-' ? first + 1 : first;
  const char* whole = past_digits(at, last);
  const char* end = whole;
  if (whole != last && *whole == '.') end = past_digits(whole + 1, last);
  if (end - at - (end == whole ? 0 : 1) < 1) return first;
  if (end == last || (*end != 'e' && *end != 'E')) return end;
  const char* power = end + 1;
  if (power != last && (*power == '+' || *power == '-')) ++power;
  const char* power_end = past_digits(power, last);
  return power_end == power ? end : power_end;
}

bool has_nonzero_digit(const char* first, const char* last) {
  for (; first != last && *first != 'e' && *first != 'E'; ++first) {
    if (*first >= '1' && *first <= '9') return true;
  }
  return false;
}

/// Decimal digits of a whole number.
template <class Whole>
char* put_digits(Whole number, char* to) {
  char digits[20];
  int count = 0;
  do digits[count++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  while (count > 0) *to++ = digits[--count];
  return to;
}

std::to_chars_result put(const char* text, std::size_t size, char* first, char* last) {
  if (size > static_cast<std::size_t>(last - first)) return {last, std::errc::value_too_large};
  std::memcpy(first, text, size);
  return {first + size, std::errc{}};
}

constexpr std::size_t most_characters = 512;

}  // namespace

std::to_chars_result std::to_chars(char* first, char* last, double number) {
  char text[most_characters];
  return put(text, page_shortest(number, text), first, last);
}

std::to_chars_result std::to_chars(char* first, char* last, double number, std::chars_format format, int digits) {
  char text[most_characters];
  const std::size_t size =
      format == std::chars_format::fixed ? page_fixed(number, digits, text) : page_general(number, digits, text);
  return put(text, size, first, last);
}

std::from_chars_result std::from_chars(const char* first, const char* last, double& value) {
  const char* end = number_end(first, last);
  if (end == first) return {first, std::errc::invalid_argument};
  const double read = page_number(first, static_cast<std::size_t>(end - first));
  const bool lost = read == 0 ? has_nonzero_digit(first, end) : read - read != 0;
  if (lost) return {end, std::errc::result_out_of_range};
  value = read;
  return {end, std::errc{}};
}

// What integers need of the same source of libc++.
_LIBCPP_BEGIN_NAMESPACE_STD
namespace __itoa {
char* __u64toa(std::uint64_t number, char* to) noexcept { return put_digits(number, to); }
char* __u32toa(std::uint32_t number, char* to) noexcept { return put_digits(number, to); }
}  // namespace __itoa
_LIBCPP_END_NAMESPACE_STD
