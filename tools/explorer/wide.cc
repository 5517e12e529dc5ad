#include "numeric/wide.hpp"

#include <cstring>

// 192 bits in a page: JavaScript's whole numbers of any size compute (wide.js), in the place of Boost.Multiprecision,
// whose code is as large as that of fifteen encodings. A number is known by its place in the page's list; the first is
// 0.

#define BEARING_PAGE(NAME) [[clang::import_module("wide"), clang::import_name(#NAME)]]

extern "C" {

BEARING_PAGE(of_double) int wide_of_double(double x);
BEARING_PAGE(of_whole) int wide_of_whole(std::int64_t n);
BEARING_PAGE(pi) int wide_of_pi();
BEARING_PAGE(to_double) double wide_to_double(int a);
BEARING_PAGE(to_float) float wide_to_float(int a);
BEARING_PAGE(compare) int wide_compare(int a, int b);
BEARING_PAGE(at_least)
int wide_at_least(std::int64_t a, unsigned i, std::int64_t b, unsigned j, std::int64_t c, unsigned k, std::int64_t d,
                  unsigned l);

BEARING_PAGE(sum) int wide_sum(int a, int b);
BEARING_PAGE(difference) int wide_difference(int a, int b);
BEARING_PAGE(product) int wide_product(int a, int b);
BEARING_PAGE(quotient) int wide_quotient(int a, int b);

BEARING_PAGE(opposite) int wide_opposite(int a);
BEARING_PAGE(exp) int wide_exp(int a);
BEARING_PAGE(log) int wide_log(int a);
BEARING_PAGE(sqrt) int wide_sqrt(int a);
BEARING_PAGE(sin) int wide_sin(int a);
BEARING_PAGE(cos) int wide_cos(int a);
BEARING_PAGE(floor) int wide_floor(int a);
BEARING_PAGE(ceil) int wide_ceil(int a);

}  // extern "C"

namespace bearing::detail {

struct WideNumber {
  static void put(Wide& w, int place) { std::memcpy(w.bytes_, &place, sizeof place); }
  static int of(const Wide& w) {
    int place = 0;
    std::memcpy(&place, w.bytes_, sizeof place);
    return place;
  }
  static Wide wide(int place) {
    Wide w;
    put(w, place);
    return w;
  }
};

namespace {

int of(const Wide& w) { return WideNumber::of(w); }
Wide wide(int place) { return WideNumber::wide(place); }

}  // namespace

Wide::Wide(double x) { WideNumber::put(*this, x == 0 ? 0 : wide_of_double(x)); }
Wide::Wide(Whole whole) { WideNumber::put(*this, wide_of_whole(whole.n)); }
Wide::Wide(const Wide& other) = default;
Wide& Wide::operator=(const Wide& other) = default;

double Wide::to_double() const { return wide_to_double(of(*this)); }
float Wide::to_float() const { return wide_to_float(of(*this)); }

Wide operator-(const Wide& a) { return wide(wide_opposite(of(a))); }
Wide operator+(const Wide& a, const Wide& b) { return wide(wide_sum(of(a), of(b))); }
Wide operator-(const Wide& a, const Wide& b) { return wide(wide_difference(of(a), of(b))); }
Wide operator*(const Wide& a, const Wide& b) { return wide(wide_product(of(a), of(b))); }
Wide operator/(const Wide& a, const Wide& b) { return wide(wide_quotient(of(a), of(b))); }
bool operator==(const Wide& a, const Wide& b) { return wide_compare(of(a), of(b)) == 0; }
std::partial_ordering operator<=>(const Wide& a, const Wide& b) { return wide_compare(of(a), of(b)) <=> 0; }

Wide exp(const Wide& a) { return wide(wide_exp(of(a))); }
Wide log(const Wide& a) { return wide(wide_log(of(a))); }
Wide sqrt(const Wide& a) { return wide(wide_sqrt(of(a))); }
Wide sin(const Wide& a) { return wide(wide_sin(of(a))); }
Wide cos(const Wide& a) { return wide(wide_cos(of(a))); }
Wide floor(const Wide& a) { return wide(wide_floor(of(a))); }
Wide ceil(const Wide& a) { return wide(wide_ceil(of(a))); }

Wide wide_pi() { return wide(wide_of_pi()); }

bool at_least(WholePower a, WholePower b, WholePower c, WholePower d) {
  return wide_at_least(a.base, a.exponent, b.base, b.exponent, c.base, c.exponent, d.base, d.exponent) != 0;
}

}  // namespace bearing::detail
