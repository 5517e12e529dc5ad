#pragma once

#include <bearing/encodings/swin.hpp>
#include <bearing/encodings/swin_v2.hpp>

namespace bearing::reference {

/// Swin's bias of head h for a query and a key at (y, x): the table's number for their displacement.
BEARING_EXPORT double swin(const Swin& spec, View<const double, 2> table, Index h, const double* q_positions,
                           const double* k_positions);

/// Swin V2's number of head h for a displacement (Δy, Δx), query minus key.
BEARING_EXPORT double swin_v2(const SwinV2& spec, View<const double, 2> w1, View<const double, 1> b1,
                              View<const double, 2> w2, Index h, Index dy, Index dx);

}  // namespace bearing::reference
