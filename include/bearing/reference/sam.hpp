#pragma once

#include <bearing/encodings/sam.hpp>

namespace bearing::reference {

/// q · (R_h[y_q − y_k] + R_w[x_q − x_k])
BEARING_EXPORT double sam(const Sam& spec, View<const double, 2> height_table, View<const double, 2> width_table,
                          View<const double, 1> q, const double* q_positions, const double* k_positions);

}  // namespace bearing::reference
