#include "numeric/wide.hpp"

#include <boost/math/constants/constants.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/cpp_int.hpp>
#include <new>
#include <type_traits>

namespace bearing::detail {

struct WideNumber {
  using Type =
      boost::multiprecision::number<boost::multiprecision::cpp_bin_float<192, boost::multiprecision::digit_base_2>,
                                    boost::multiprecision::et_off>;
  static_assert(sizeof(Type) <= sizeof(Wide::bytes_) && alignof(Type) <= alignof(Wide));
  static_assert(std::is_trivially_destructible_v<Type>);

  static void put(Wide& w, const Type& x) { new (w.bytes_) Type(x); }
  static const Type& of(const Wide& w) { return *std::launder(reinterpret_cast<const Type*>(w.bytes_)); }
  static Wide wide(const Type& x) {
    Wide w;
    put(w, x);
    return w;
  }
};

namespace {

const WideNumber::Type& of(const Wide& w) { return WideNumber::of(w); }
Wide wide(const WideNumber::Type& x) { return WideNumber::wide(x); }

}  // namespace

Wide::Wide(double x) { WideNumber::put(*this, WideNumber::Type(x)); }
Wide::Wide(Whole whole) { WideNumber::put(*this, WideNumber::Type(whole.n)); }
Wide::Wide(const Wide& other) { WideNumber::put(*this, of(other)); }
Wide& Wide::operator=(const Wide& other) {
  if (this != &other) WideNumber::put(*this, of(other));
  return *this;
}

double Wide::to_double() const { return of(*this).convert_to<double>(); }
float Wide::to_float() const { return of(*this).convert_to<float>(); }

Wide operator-(const Wide& a) { return wide(-of(a)); }
Wide operator+(const Wide& a, const Wide& b) { return wide(of(a) + of(b)); }
Wide operator-(const Wide& a, const Wide& b) { return wide(of(a) - of(b)); }
Wide operator*(const Wide& a, const Wide& b) { return wide(of(a) * of(b)); }
Wide operator/(const Wide& a, const Wide& b) { return wide(of(a) / of(b)); }
bool operator==(const Wide& a, const Wide& b) { return of(a) == of(b); }
std::partial_ordering operator<=>(const Wide& a, const Wide& b) {
  if (of(a) < of(b)) return std::partial_ordering::less;
  if (of(a) > of(b)) return std::partial_ordering::greater;
  return of(a) == of(b) ? std::partial_ordering::equivalent : std::partial_ordering::unordered;
}

Wide exp(const Wide& a) { return wide(exp(of(a))); }
Wide log(const Wide& a) { return wide(log(of(a))); }
Wide sqrt(const Wide& a) { return wide(sqrt(of(a))); }
Wide sin(const Wide& a) { return wide(sin(of(a))); }
Wide cos(const Wide& a) { return wide(cos(of(a))); }
Wide floor(const Wide& a) { return wide(floor(of(a))); }
Wide ceil(const Wide& a) { return wide(ceil(of(a))); }

Wide wide_pi() { return wide(boost::math::constants::pi<WideNumber::Type>()); }

bool at_least(WholePower a, WholePower b, WholePower c, WholePower d) {
  using boost::multiprecision::cpp_int;
  const auto value = [](WholePower x) -> cpp_int { return pow(cpp_int(x.base), x.exponent); };
  return value(a) * value(b) >= value(c) * value(d);
}

}  // namespace bearing::detail
