#pragma once

#include <bearing/view.hpp>
#include <vector>

#include "load_tables.hpp"

// A tensor as an encoding takes it, where a model's code looks its rows up in another order.

namespace bearing::load {

/// What a shape becomes; empty where the tensor has other axes than it takes, or other heads. heads: the config's, 0
/// where it does not say them.
std::vector<Index> arranged_shape(Arranged how, std::vector<Index> shape, Index heads);

/// Row-major numbers of `shape`, in their new order.
std::vector<float> arranged(Arranged how, const std::vector<Index>& shape, std::vector<float> numbers);

/// ", transposed", for the error about a shape; "" for a tensor that stays as it is.
const char* arranged_text(Arranged how);

}  // namespace bearing::load
