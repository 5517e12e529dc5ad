#include <algorithm>
#include <bearing/attention.hpp>
#include <cmath>
#include <limits>

#include "attention/decode/decode_kernels.hpp"
#include "attention/shared/share.hpp"
#include "attention/shared/stored_numbers.hpp"
#include "tensor_checks.hpp"
#include "terms/score_call.hpp"

namespace bearing {

namespace {

template <class O>
void merge_row(View<const O, 4> part, Compute<O> part_lse, View<O, 4> out, Compute<O>& lse, Index b, Index h, Index i) {
  using A = Compute<O>;
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  const Index value_dim = out.shape[3];
  if (part_lse == nothing) return;
  if (lse == nothing) {  // whatever lies there, a share of 0 would keep a NaN
    for (Index d = 0; d < value_dim; ++d) out(b, h, i, d) = part(b, h, i, d);
    lse = part_lse;
    return;
  }
  const A most = std::max(lse, part_lse), ours = attend::share(lse - most), theirs = attend::share(part_lse - most);
  const A sum = ours + theirs, our_share = ours / sum, their_share = theirs / sum;
  if (value_dim > 0 && out.stride[3] == 1 && part.stride[3] == 1) {
    attend::blend<O>(value_dim, our_share, &out(b, h, i, Index{0}), their_share, &part(b, h, i, Index{0}));
  } else {
    for (Index d = 0; d < value_dim; ++d) {
      attend::blend<O>(1, our_share, &out(b, h, i, d), their_share, &part(b, h, i, d));  // with the same bits
    }
  }
  lse = most + std::log(sum);
}

}  // namespace

template <class O>
void merge(View<const O, 4> part, const std::type_identity_t<View<const Compute<O>, 3>>& part_lse,
           std::type_identity_t<View<O, 4>> out, const std::type_identity_t<View<Compute<O>, 3>>& lse,
           const Executor& on) {
  const char* function = "merge";
  check_output(function, "out", out);
  check_shape(function, "part", part, out.shape, "of the shape of out");
  const std::array<Index, 3> rows{out.shape[0], out.shape[1], out.shape[2]};
  check_shape(function, "part_lse", part_lse, rows, "[batch, heads, q_len]");
  check_shape(function, "lse", lse, rows, "[batch, heads, q_len]");
  check_output(function, "lse", lse);
  CallMemory memory(function);
  memory.reads("part", part).reads("part_lse", part_lse).writes("out", out).writes("lse", lse).check();
  const Index units = rows[0] * rows[1] * rows[2];
  if (units == 0) return;
  in_chunks(on, chunk_count(on, units), units, [&](Index, Index unit) {
    const Index i = unit % rows[2], h = unit / rows[2] % rows[1], b = unit / rows[2] / rows[1];
    merge_row(part, part_lse(b, h, i), out, lse(b, h, i), b, h, i);
  });
}

#define BEARING_INSTANTIATE(O)                                                                               \
  template void merge<O>(View<const O, 4>, const std::type_identity_t<View<const Compute<O>, 3>>&,           \
                         std::type_identity_t<View<O, 4>>, const std::type_identity_t<View<Compute<O>, 3>>&, \
                         const Executor&);
BEARING_EACH_NUMBER(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

}  // namespace bearing
