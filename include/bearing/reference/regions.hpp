#pragma once

#include <bearing/reference/attention.hpp>
#include <bearing/regions.hpp>

namespace bearing::reference {

/// q and k as they enter the product in one region: turned.
struct RegionRows {
  View<const double, 4> q, k;
};
/// Where the gradients of a region's rows are written, with their shapes.
struct RegionRowGrads {
  View<double, 4> d_q, d_k;
};

/// The region that holds the pair of a query at m and a key at n; −1: none.
BEARING_EXPORT Index region_of(std::span<const Region> regions, double m, double n);

/// attention() with rows that differ by region: its `in` has v, scores, masks and sinks, and q and k for their shapes.
/// region(b, i, j): the region of a query and a key.
BEARING_EXPORT void attention_in_regions(const Attention& in, std::span<const RegionRows> rows,
                                         const std::function<Index(Index b, Index i, Index j)>& region,
                                         View<double, 4> out, View<double, 3> lse = {}, View<double, 4> p = {});

/// … and its gradients: of each region's rows, in its order; d_q and d_k of `grads` are left alone.
BEARING_EXPORT void attention_in_regions_backward(const Attention& in, std::span<const RegionRows> rows,
                                                  const std::function<Index(Index b, Index i, Index j)>& region,
                                                  View<const double, 4> d_out, View<const double, 3> d_lse,
                                                  std::span<const RegionRowGrads> row_grads,
                                                  const AttentionGradients& grads);

}  // namespace bearing::reference
