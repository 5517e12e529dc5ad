#include <bearing/attention.hpp>
#include <cmath>
#include <limits>

#include "tensor_checks.hpp"
#include "terms/score_call.hpp"

namespace bearing {

template <class O>
void merge(View<const O, 4> part, const std::type_identity_t<View<const Compute<O>, 3>>& part_lse,
           std::type_identity_t<View<O, 4>> out, const std::type_identity_t<View<Compute<O>, 3>>& lse,
           const Executor& on) {
  using A = Compute<O>;
  const char* function = "merge";
  check_output(function, "out", out);
  check_shape(function, "part", part, out.shape, "of the shape of out");
  const std::array<Index, 3> rows{out.shape[0], out.shape[1], out.shape[2]};
  check_shape(function, "part_lse", part_lse, rows, "[batch, heads, q_len]");
  check_shape(function, "lse", lse, rows, "[batch, heads, q_len]");
  check_output(function, "lse", lse);
  check_other(function, "out", out, "part", part);
  check_other(function, "lse", lse, "part_lse", part_lse);
  const Index units = rows[0] * rows[1];
  if (units == 0) return;
  in_chunks(on, chunk_count(on, units), units, [&](Index, Index unit) {
    const Index b = unit / rows[1], h = unit % rows[1];
    for (Index i = 0; i < rows[2]; ++i) {
      const A ours = lse(b, h, i), theirs = part_lse(b, h, i), most = std::max(ours, theirs);
      if (theirs == -std::numeric_limits<A>::infinity()) continue;
      const A our_share = std::exp(ours - most), their_share = std::exp(theirs - most), sum = our_share + their_share;
      for (Index d = 0; d < out.shape[3]; ++d) {
        const A mixed = our_share * static_cast<A>(out(b, h, i, d)) + their_share * static_cast<A>(part(b, h, i, d));
        out(b, h, i, d) = O(mixed / sum);
      }
      lse(b, h, i) = most + std::log(sum);
    }
  });
}

#define BEARING_INSTANTIATE(O)                                                                               \
  template void merge<O>(View<const O, 4>, const std::type_identity_t<View<const Compute<O>, 3>>&,           \
                         std::type_identity_t<View<O, 4>>, const std::type_identity_t<View<Compute<O>, 3>>&, \
                         const Executor&);
BEARING_INSTANTIATE(double)
BEARING_INSTANTIATE(float)
BEARING_INSTANTIATE(Bfloat16)
BEARING_INSTANTIATE(Float16)
#undef BEARING_INSTANTIATE

}  // namespace bearing
