#pragma once

#include <vector>

namespace bearing::reference {

/// x ← exp(m) x, m [n, n] row by row: the power series on x, in steps of norm below 1.
void act_exponential(const std::vector<double>& m, std::vector<double>& x);

}  // namespace bearing::reference
