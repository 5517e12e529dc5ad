#include <algorithm>
#include <bearing/encodings/transformer_xl.hpp>
#include <bearing/error.hpp>
#include <cmath>
#include <vector>

#include "tensor_checks.hpp"
#include "terms/tile_kernels.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

/// Offsets at a time: their sinusoids stay near.
constexpr Index offsets_at_once = 64;

template <class T, int Rank>
bool given(const View<T, Rank>& x) {
  return x.data != nullptr || x.size() == 0;
}

void check(const char* function, const char* r_name, const TransformerXL& xl, const std::array<Index, 2>& w_r,
           const std::array<Index, 3>& r, bool given, double base) {
  if (w_r[0] != r[0] * r[2] || w_r[1] < 0 || w_r[1] % 2 != 0) {
    throw ShapeError(concat("[", function, "] w_r: must be [heads * dim, d_model] with ", r_name,
                            " [heads, offsets, dim] and d_model even, got shapes ", w_r, " and ", r));
  }
  if (!given) throw ShapeError(concat("[", function, "] w_r, ", r_name, ": must have memory, got a null pointer"));
  if (!(base > 0) || !std::isfinite(base)) {
    throw RangeError(concat("[", function, "] base: must be finite and above 0, got ", base));
  }
  if (xl.clamp_len < 0) {
    throw RangeError(concat("[", function, "] clamp_len: must be at least 0 (none), got ", xl.clamp_len));
  }
  if (xl.first_offset < -max_position || xl.first_offset > max_position || r[1] > max_position - xl.first_offset + 1) {
    throw RangeError(concat("[", function, "] first_offset: must keep offsets within ±2^31, got ", xl.first_offset,
                            " and ", r[1], " offsets"));
  }
}

/// rows[o] = [sin(δω) | cos(δω)] of the offset δ = first + o, clamped; in double, rounded once.
template <class A>
void sinusoids(const TransformerXL& xl, Index first, Index n, const std::vector<double>& frequency, A* rows) {
  const auto half = static_cast<Index>(frequency.size());
  for (Index o = 0; o < n; ++o) {
    Index offset = first + o;
    if (xl.clamp_len > 0) offset = std::clamp(offset, -xl.clamp_len, xl.clamp_len);
    for (Index i = 0; i < half; ++i) {
      const double angle = static_cast<double>(offset) * frequency[static_cast<std::size_t>(i)];
      rows[o * 2 * half + i] = static_cast<A>(std::sin(angle));
      rows[o * 2 * half + half + i] = static_cast<A>(std::cos(angle));
    }
  }
}

std::vector<double> frequencies(Index d_model, double base) {
  std::vector<double> frequency;
  for (Index i = 0; i < d_model; i += 2) {
    frequency.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(d_model)));
  }
  return frequency;
}

std::size_t size(Index n) { return static_cast<std::size_t>(n); }

}  // namespace

template <class A>
void transformer_xl_relative(const TransformerXL& xl, std::type_identity_t<View<const A, 2>> w_r, View<A, 3> r,
                             double base) {
  const char* function = "transformer_xl_relative";
  check(function, "r", xl, w_r.shape, r.shape, given(w_r) && given(r), base);
  check_tensor(function, "w_r", w_r);
  check_output(function, "r", r);
  check_apart(function, "r", r, "w_r", w_r);
  const auto [heads, offsets, dim] = r.shape;
  const Index d_model = w_r.shape[1];
  const std::vector<double> frequency = frequencies(d_model, base);
  std::vector<A> weights(size(heads * dim * d_model)), rows(size(offsets_at_once * d_model)),
      products(size(offsets_at_once * dim));
  for (Index x = 0; x < heads * dim; ++x) {
    for (Index y = 0; y < d_model; ++y) weights[size(x * d_model + y)] = w_r(x, y);
  }
  for (Index first = 0; first < offsets; first += offsets_at_once) {
    const Index n = std::min(offsets_at_once, offsets - first);
    sinusoids(xl, xl.first_offset + first, n, frequency, rows.data());
    for (Index h = 0; h < heads; ++h) {
      tiles::multiply_nt(n, dim, d_model, A{1}, rows.data(), d_model, weights.data() + h * dim * d_model, d_model,
                         products.data(), dim);
      for (Index o = 0; o < n; ++o) {
        for (Index d = 0; d < dim; ++d) r(h, first + o, d) = products[size(o * dim + d)];
      }
    }
  }
}

template <class A>
void transformer_xl_relative_backward(const TransformerXL& xl, std::type_identity_t<View<const A, 3>> d_r,
                                      View<A, 2> d_w_r, double base) {
  const char* function = "transformer_xl_relative_backward";
  check(function, "d_r", xl, d_w_r.shape, d_r.shape, given(d_w_r) && given(d_r), base);
  check_tensor(function, "d_r", d_r);
  check_output(function, "d_w_r", d_w_r);
  check_apart(function, "d_w_r", d_w_r, "d_r", d_r);
  const auto [heads, offsets, dim] = d_r.shape;
  const Index d_model = d_w_r.shape[1];
  const std::vector<double> frequency = frequencies(d_model, base);
  std::vector<A> d_weights(size(heads * dim * d_model)), rows(size(offsets_at_once * d_model)),
      d_products(size(offsets_at_once * dim));
  for (Index first = 0; first < offsets; first += offsets_at_once) {
    const Index n = std::min(offsets_at_once, offsets - first);
    sinusoids(xl, xl.first_offset + first, n, frequency, rows.data());
    for (Index h = 0; h < heads; ++h) {  // r_δ = W_h · sinusoid_δ: dW_h += Σ_δ d_r_δ ⊗ sinusoid_δ
      for (Index o = 0; o < n; ++o) {
        for (Index d = 0; d < dim; ++d) d_products[size(o * dim + d)] = d_r(h, first + o, d);
      }
      tiles::add_multiply_tn(n, dim, d_model, A{1}, d_products.data(), dim, rows.data(), d_model,
                             d_weights.data() + h * dim * d_model, d_model);
    }
  }
  for (Index x = 0; x < heads * dim; ++x) {
    for (Index y = 0; y < d_model; ++y) d_w_r(x, y) += d_weights[size(x * d_model + y)];
  }
}

#define BEARING_INSTANTIATE(A)                                                                                       \
  template void transformer_xl_relative<A>(const TransformerXL&, std::type_identity_t<View<const A, 2>>, View<A, 3>, \
                                           double);                                                                  \
  template void transformer_xl_relative_backward<A>(const TransformerXL&, std::type_identity_t<View<const A, 3>>,    \
                                                    View<A, 2>, double);
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(double)
#undef BEARING_INSTANTIATE

}  // namespace bearing
