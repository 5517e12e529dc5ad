#include <bearing/reference/bucket_bias.hpp>

namespace bearing::reference {

Index bucket_row(const BucketDifference& difference, Index a_i, Index a_j, Index g_i, Index g_j) {
  if (difference.pairs == BucketPairs::same_group && g_i != g_j) return 2 * difference.clip + 1;
  if (difference.pairs == BucketPairs::other_group && g_i == g_j) return 2 * difference.clip + 1;
  const Index shifted = a_i - a_j + difference.clip;
  if (shifted < 0) return 0;
  return shifted > 2 * difference.clip ? 2 * difference.clip : shifted;
}

double bucket_bias(View<const double, 2> table, Index h, Index row) { return row < 0 ? 0 : table(row, h); }

}  // namespace bearing::reference
