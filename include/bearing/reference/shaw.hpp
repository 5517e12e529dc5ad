#pragma once

#include <bearing/encodings/shaw.hpp>

namespace bearing::reference {

/// What Shaw's keys add to head h's score of a query q at m and a key at n: scale · q · key[ρ], ρ = clip(n − m) + clip;
/// nothing outside the window where the spec says so.
/// Tables are [heads or 1, 2·clip + 1, dim].
BEARING_EXPORT double shaw_score(const Shaw& shaw, View<const double, 3> key, Index h, double m, double n,
                                 View<const double, 1> q, double scale);

/// Feature d of the vector that a unit of probability adds to the query's output: value[ρ][d].
BEARING_EXPORT double shaw_value(const Shaw& shaw, View<const double, 3> value, Index h, double m, double n, Index d);

}  // namespace bearing::reference
