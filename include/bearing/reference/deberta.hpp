#pragma once

#include <bearing/encodings/deberta.hpp>

namespace bearing::reference {

/// What DeBERTa adds to head h's score of query q at m and key k at n. key, query: Kr, Qr [heads, 2·span, dim].
BEARING_EXPORT double deberta(const Deberta& deberta, View<const double, 3> key, View<const double, 3> query, Index h,
                              View<const double, 1> q, View<const double, 1> k, double m, double n, double scale);

}  // namespace bearing::reference
