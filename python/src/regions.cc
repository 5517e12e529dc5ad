#include "regions.hpp"

#include <bearing/error.hpp>
#include <charconv>
#include <cmath>

#include "bind.hpp"
#include "specs.hpp"

namespace bearing::python {

namespace {

/// Numbers with a blank behind each; what is left out is nan.
class Writer {
 public:
  Writer& operator<<(double number) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    text.append(digits.data(), end).push_back(' ');
    return *this;
  }
  Writer& operator<<(Index number) { return *this << static_cast<double>(number); }
  template <class T>
  Writer& operator<<(const std::optional<T>& number) {
    return number ? *this << *number : *this << std::nan("");
  }
  Writer& operator<<(const Band& band) { return *this << band.from << band.to << band.chunk; }
  Writer& operator<<(const Placing& at) { return *this << at.period << at.group << at.step << at.offset << at.most; }

  std::string text;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool more() const { return at_ != end_; }
  Reader& operator>>(double& number) {
    const auto [rest, error] = std::from_chars(at_, end_, number);
    if (error != std::errc() || rest == end_ || *rest != ' ') throw ConfigError("[bearing] regions: unreadable text");
    at_ = rest + 1;
    return *this;
  }
  Reader& operator>>(Index& number) {
    double read = 0;
    *this >> read;
    number = static_cast<Index>(read);
    return *this;
  }
  template <class T>
  Reader& operator>>(std::optional<T>& number) {
    double read = 0;
    *this >> read;
    if (!std::isnan(read)) number = static_cast<T>(read);
    return *this;
  }
  Reader& operator>>(Band& band) { return *this >> band.from >> band.to >> band.chunk; }
  Reader& operator>>(Placing& at) { return *this >> at.period >> at.group >> at.step >> at.offset >> at.most; }

 private:
  const char *at_, *end_;
};

}  // namespace

std::vector<Region> regions_given(nb::handle given, const Argument& argument) {
  std::vector<Region> made;
  if (given.is_none()) return made;
  const auto take = [&](const auto* spec) {
    if (spec != nullptr) made = bearing::regions(*spec);
  };
  take(spec_as<DualChunk>(given));
  take(spec_as<SelfExtend>(given));
  take(spec_as<ReRope>(given));
  if (made.empty() && (nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given))) {
    for (nb::handle one : given) {
      const Region* region = spec_as<Region>(one);
      if (region == nullptr) break;
      made.push_back(*region);
    }
    if (made.size() != nb::len(given)) made.clear();
  }
  if (made.empty()) {
    argument.fail("a DualChunk, a SelfExtend, a ReRope, a list of Region or None",
                  nb::cast<std::string>(nb::repr(given)));
  }
  return made;
}

Band band_given(nb::handle given, const Argument& argument) {
  if (given.is_none()) return {};
  if (const Band* band = spec_as<Band>(given)) return *band;
  argument.fail("a DistanceBand or None", nb::cast<std::string>(nb::repr(given)));
}

std::string text_of(const Band& band) {
  Writer to;
  to << band;
  return to.text;
}

Band band_of(std::string_view text) {
  Band band;
  Reader from(text);
  if (from.more()) from >> band;
  return band;
}

std::string text_of(const std::vector<Region>& regions) {
  Writer to;
  for (const Region& one : regions) to << one.band << one.q << one.k;
  return to.text;
}

std::vector<Region> regions_of(std::string_view text) {
  std::vector<Region> made;
  for (Reader from(text); from.more();) {
    Region& one = made.emplace_back();
    from >> one.band >> one.q >> one.k;
  }
  return made;
}

}  // namespace bearing::python
