#include <bearing/encodings/rope_gradients.hpp>
#include <bearing/error.hpp>

#include "encodings/rotary/rope_formulas.hpp"
#include "tensor_checks.hpp"
#include "text.hpp"

namespace bearing {

double base_gradient(const Rope& rope, View<const double, 1> d_inv_freq, Index seq_len) {
  const detail::CheckedRope checked = detail::check_rope(rope, seq_len);
  const Index pairs = checked.rotary_dim / 2;
  if (d_inv_freq.data == nullptr || d_inv_freq.shape[0] != pairs) {
    throw ShapeError(text::concat("[base_gradient] d_inv_freq: must have one entry per pair, ", pairs, ", got ",
                                  d_inv_freq.data == nullptr ? Index{0} : d_inv_freq.shape[0]));
  }
  check_tensor("base_gradient", "d_inv_freq", d_inv_freq);
  double d_base = 0;
  detail::for_each_pair<detail::Dual>(rope, checked.axes, seq_len,
                                      [&](std::size_t pair, const detail::PairFrequency<detail::Dual>& frequency) {
                                        d_base += d_inv_freq(static_cast<Index>(pair)) * frequency.theta.slope;
                                      });
  return d_base;
}

}  // namespace bearing
