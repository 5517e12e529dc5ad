// Products of attention, once per SIMD target.

#include "attention/softmax/softmax_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/softmax/product_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <type_traits>

#include "attention/shared/panels-inl.h"
#include "simd/dispatch.hpp"
#include "simd/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bearing::attend::HWY_NAMESPACE {

/// Rows of a block whose sums are held in registers.
inline constexpr int block_rows = 6;

template <class A>
void pack(Index cols, Index dim, const A* rows, Index stride, A* packed) {
  const Index width = panel_lanes<A>();
  if (dim == 0) return;  // and rows may be null
  for (Index first = 0; first < cols; first += width, packed += width * dim) {
    simd::HWY_NAMESPACE::transpose(HWY_MIN(width, cols - first), dim, rows + first * stride, stride, width, packed,
                                   width);
  }
}

/// s = sum …
template <class A>
struct Stored {
  A* s;
  Index stride;

  template <class D, class V>
  HWY_INLINE void operator()(D d, Index i, Index x, V sum) const {
    hn::StoreU(sum, d, s + i * stride + x);
  }
};
/// … or alpha · sum
template <class A>
struct Scaled {
  A alpha;
  Stored<A> to;

  template <class D, class V>
  HWY_INLINE void operator()(D d, Index i, Index x, V sum) const {
    to(d, i, x, hn::Mul(hn::Set(d, alpha), sum));
  }
};

template <class A>
void scores(Index rows, Index first, Index end, Index dim, A alpha, const A* q, Index q_stride, const A* packed, A* s,
            Index stride) {
  const auto panels = [&](const auto& finish) HWY_ATTR {
    for (Index j = first & -panel_lanes<A>(); j < end; j += panel_lanes<A>()) {
      simd::HWY_NAMESPACE::in_row_blocks<block_rows>(rows, [&](auto count, Index i) HWY_ATTR {
        simd::HWY_NAMESPACE::product_block<decltype(count)::value, panel_vectors>(
            Tag<A>(), dim, simd::HWY_NAMESPACE::Rows<A>{q + i * q_stride, q_stride}, packed + j * dim, panel_lanes<A>(),
            finish(Stored<A>{s + i * stride + j, stride}));
      });
    }
  };
  if (alpha == A{1}) return panels([](const Stored<A>& to) { return to; });
  panels([&](const Stored<A>& to) { return Scaled<A>{alpha, to}; });
}

/// out = rescale · out + sum
template <class A>
struct Rescaled {
  const A* rescale;
  A* out;
  Index stride;

  template <class D, class V>
  HWY_INLINE void operator()(D d, Index i, Index x, V sum) const {
    A* to = out + i * stride + x;
    hn::StoreU(hn::MulAdd(hn::Set(d, rescale[i]), hn::LoadU(d, to), sum), d, to);
  }
};

template <class A>
void accumulate(Index rows, Index first, Index end, Index value_dim, const A* p, Index stride, const A* rescale,
                const Values<A>& v, A* out, Index out_stride) {
  Index x = 0;
  const auto columns = [&](auto vectors, auto d) HWY_ATTR {
    constexpr int Vectors = decltype(vectors)::value;
    for (const Index n = Vectors * static_cast<Index>(hn::Lanes(d)); x + n <= value_dim; x += n) {
      const Index in_panel = x % panel_lanes<A>(), panel = x - in_panel;
      const Index v_stride = panel + panel_lanes<A>() <= value_dim ? v.stride : v.rest;
      const A* from = v.data + panel / panel_lanes<A>() * v.panel + in_panel + (v.row + first) * v_stride;
      simd::HWY_NAMESPACE::in_row_blocks<block_rows>(rows, [&](auto count, Index i) HWY_ATTR {
        simd::HWY_NAMESPACE::product_block<decltype(count)::value, Vectors>(
            d, end - first, simd::HWY_NAMESPACE::Rows<A>{p + first + i * stride, stride}, from, v_stride,
            Rescaled<A>{rescale + i, out + i * out_stride + x, out_stride});
      });
    }
  };
  const std::integral_constant<int, 1> one;
  columns(std::integral_constant<int, panel_vectors>(), Tag<A>());
  columns(one, Tag<A>());
  columns(one, hn::CappedTag<A, 8>());
  columns(one, hn::CappedTag<A, 4>());
  columns(one, hn::CappedTag<A, 1>());
}

template <class A>
Index panel_width() {
  return panel_lanes<A>();
}
template <class A>
Index strip_rows() {
  return 2 * block_rows;
}

}  // namespace bearing::attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bearing::attend {

BEARING_KERNEL(Index, panel_width, (), ())
BEARING_KERNEL(Index, strip_rows, (), ())
BEARING_KERNEL(void, pack, (Index cols, Index dim, const A* rows, Index stride, A* packed),
               (cols, dim, rows, stride, packed))
BEARING_KERNEL(void, scores,
               (Index rows, Index first, Index end, Index dim, A alpha, const A* q, Index q_stride, const A* packed,
                A* s, Index stride),
               (rows, first, end, dim, alpha, q, q_stride, packed, s, stride))
BEARING_KERNEL(void, accumulate,
               (Index rows, Index first, Index end, Index value_dim, const A* p, Index stride, const A* rescale,
                const Values<A>& v, A* out, Index out_stride),
               (rows, first, end, value_dim, p, stride, rescale, v, out, out_stride))

}  // namespace bearing::attend
#endif
