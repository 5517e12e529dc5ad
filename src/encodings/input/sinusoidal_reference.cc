#include <bearing/reference/sinusoidal.hpp>
#include <cmath>

namespace bearing::reference {

namespace {

struct Column {
  bool zero = false, sine = false;
  Index pair = 0;
};

Column column(SinusoidalLayout layout, Index dim, Index d) {
  const Index half = dim / 2;
  if (layout == SinusoidalLayout::interleaved) return {false, d % 2 == 0, d / 2};
  if (layout == SinusoidalLayout::concatenated) {
    const Index sines = (dim + 1) / 2;
    return {false, d < sines, d < sines ? d : d - sines};
  }
  if (d == 2 * half) return {true, false, 0};
  const bool first_half = d < half, sine_first = layout == SinusoidalLayout::tensor2tensor;
  return {false, first_half == sine_first, d % half};
}

double frequency(SinusoidalLayout layout, double base, Index dim, Index pair) {
  const Index pairs = dim / 2;
  const double i = static_cast<double>(pair), half = static_cast<double>(pairs);
  double exponent = 2 * i / static_cast<double>(dim);
  if (layout == SinusoidalLayout::cos_first) exponent = i / half;
  if (layout == SinusoidalLayout::tensor2tensor || layout == SinusoidalLayout::cos_first_shifted) {
    exponent = pair == 0 ? 0 : i / (half - 1);
  }
  return std::pow(base, -exponent);
}

double wave(const Sinusoidal& spec, const Column& c, double frequency, double p) {
  if (c.zero || (spec.padding_position && p == static_cast<double>(*spec.padding_position))) return 0;
  return spec.scale * (c.sine ? std::sin(p * frequency) : std::cos(p * frequency));
}

}  // namespace

double sinusoidal(const Sinusoidal& spec, Index d, double p) {
  const Column c = column(spec.layout, spec.dim, d);
  return wave(spec, c, spec.frequency_scale * frequency(spec.layout, spec.base, spec.dim, c.pair), p);
}

double sinusoidal(const Sinusoidal& spec, View<const double, 1> frequencies, Index d, double p) {
  const Column c = column(spec.layout, spec.dim, d);
  return wave(spec, c, c.zero ? 0 : frequencies(c.pair), p);
}

}  // namespace bearing::reference
