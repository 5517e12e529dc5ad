#include <bearing/regions.hpp>

#include "attention/decode/decode_kernels.hpp"
#include "attention/regions/region_calls.hpp"
#include "attention/shared/extents.hpp"
#include "attention/shared/head_rows.hpp"
#include "attention/softmax/backward_checks.hpp"
#include "terms/row_place.hpp"

namespace bearing {

namespace {

/// A tensor [batch, heads, time, dim] of one's own, row after row.
template <class A>
class Rows {
 public:
  Rows(const std::array<Index, 4>& shape, bool wanted = true) : shape_(shape) {
    if (wanted) numbers_.resize(block_numbers(shape[0] * shape[1] * shape[2], shape[3]));
  }

  /// Null if it is not wanted, or is empty.
  View<A, 4> view() { return bhtd(numbers_.data(), shape_[0], shape_[1], shape_[2], shape_[3]); }
  View<const A, 4> read() const { return bhtd(numbers_.data(), shape_[0], shape_[1], shape_[2], shape_[3]); }

  void add(const Rows& other, const Executor& on) {
    constexpr Index at_once = 4096;
    const auto n = static_cast<Index>(numbers_.size()), units = pieces(n, at_once);
    in_chunks(on, chunk_count(on, units), units, [&](Index, Index unit) {
      const Index first = unit * at_once;
      attend::blend<A>(std::min(at_once, n - first), 1, numbers_.data() + first, 1, other.numbers_.data() + first);
    });
  }
  /// body(numbers of some rows, their batch, head, first row, how many) for all of them.
  template <class Body>
  void each(const Executor& on, const Body& body) {
    const Index blocks = pieces(shape_[2], rows_at_once), units = numbers_.empty() ? 0 : shape_[0] * shape_[1] * blocks;
    in_chunks(on, chunk_count(on, units), units, [&](Index, Index unit) {
      const Index first = unit % blocks * rows_at_once, head = unit / blocks;
      A* rows = numbers_.data() + (head * shape_[2] + first) * shape_[3];
      body(rows, head / shape_[1], head % shape_[1], first, std::min(rows_at_once, shape_[2] - first));
    });
  }
  template <class O>
  void store(View<O, 4> to, const Executor& on) {
    const ResultRows<A> rows(to);
    each(on, [&](const A* from, Index b, Index h, Index i, Index n) { rows.store(from, shape_[3], n, b, h, i); });
  }
  template <class O>
  void load(View<const O, 4> from, const Executor& on) {
    const HeadRows<A> rows(from);
    each(on, [&](A* to, Index b, Index h, Index i, Index n) { rows.load(b, h, i, n, to); });
  }

 private:
  std::array<Index, 4> shape_;
  std::vector<A> numbers_;
};

/// Gradients of q, k and v of some regions.
template <class A>
struct InputGrads {
  Rows<A> q, k, v;

  template <class T, class O>
  InputGrads(const AttentionInputs<T>& in, const AttentionGrads<O>& wanted)
      : q(in.q.shape, wanted.d_q.data != nullptr),
        k(in.k.shape, wanted.d_k.data != nullptr),
        v(in.v.shape, wanted.d_v.data != nullptr) {}

  AttentionGrads<A> views() { return {q.view(), k.view(), v.view()}; }
  void add(const InputGrads& other, const Executor& on) {
    q.add(other.q, on);
    k.add(other.k, on);
    v.add(other.v, on);
  }
};

}  // namespace

template <class T, class O>
void attention_in_regions(const AttentionInputs<T>& in, std::span<const Region> regions, View<O, 4> out,
                          const std::type_identity_t<View<Compute<T>, 3>>& lse,
                          const std::type_identity_t<TermList<Compute<T>>>& terms,
                          const std::type_identity_t<AttentionOptions<Compute<T>>>& options, const Executor& on) {
  using A = Compute<T>;
  const RegionCalls<T> calls("attention_in_regions", in, regions, terms, options);
  const AttentionCall<A>& call = calls.first();
  call.check_outputs(out, lse);
  const std::array<Index, 4> shape = call.out_shape();
  if (shape[3] == 0 && lse.data == nullptr) return;  // and nothing bounds how many rows there are
  const std::array<Index, 4> sums{shape[0], shape[1], shape[2], 1};
  Rows<A> whole(shape), part(shape, regions.size() > 1), whole_lse(sums), part_lse(sums, regions.size() > 1);
  const auto of_rows = [&](Rows<A>& x) { return dense(x.view().data, shape[0], shape[1], shape[2]); };
  calls.each([&](const AttentionInputs<T>& inputs, const AttentionOptions<A>& given, std::size_t n) {
    attention<T, A>(inputs, n == 0 ? whole.view() : part.view(), of_rows(n == 0 ? whole_lse : part_lse), terms, given,
                    on);
    if (n > 0) merge<A>(part.read(), of_rows(part_lse), whole.view(), of_rows(whole_lse), on);
  });
  whole.store(out, on);
  const View<const A, 3> from = of_rows(whole_lse);
  for (Index row = 0; lse.data != nullptr && row < lse.size(); ++row) {
    const Index b = row / shape[2] / shape[1], h = row / shape[2] % shape[1], i = row % shape[2];
    lse(b, h, i) = from(b, h, i);
  }
}

template <class T, class O>
void attention_in_regions_backward(const AttentionInputs<T>& in, std::span<const Region> regions,
                                   const std::type_identity_t<AttentionResults<O>>& results,
                                   const std::type_identity_t<AttentionGrads<O>>& grads,
                                   const std::type_identity_t<TermList<Compute<T>>>& terms,
                                   const std::type_identity_t<AttentionOptions<Compute<T>>>& options,
                                   const Executor& on) {
  using A = Compute<T>;
  const char* function = "attention_in_regions_backward";
  check_not_paged(function, in);
  const RegionCalls<T> calls(function, in, regions, terms, options);
  check_results(calls.first(), results);
  check_grads(calls.first(), results, grads);
  constexpr bool widen = !std::is_same_v<O, A>;
  Rows<A> out(results.out.shape, widen), d_out(results.out.shape, widen);
  InputGrads<A> whole(in, grads);
  std::optional<InputGrads<A>> part;
  if (regions.size() > 1) part.emplace(in, grads);
  const auto widened = [&](View<const O, 4> x, Rows<A>& room) -> View<const A, 4> {
    if constexpr (widen) {
      room.load(x, on);
      return room.read();
    } else {
      return x;
    }
  };
  const AttentionResults<A> from{widened(results.out, out), results.lse, widened(results.d_out, d_out), results.d_lse};
  calls.each([&](const AttentionInputs<T>& inputs, const AttentionOptions<A>& given, std::size_t n) {
    attention_backward<T, A>(inputs, from, n == 0 ? whole.views() : part->views(), terms, given, on);
    if (n > 0) whole.add(*part, on);
  });
  whole.q.store(grads.d_q, on);
  whole.k.store(grads.d_k, on);
  whole.v.store(grads.d_v, on);
}

#define BEARING_INSTANTIATE(T, O)                                                                           \
  template void attention_in_regions<T, O>(                                                                 \
      const AttentionInputs<T>&, std::span<const Region>, View<O, 4>,                                       \
      const std::type_identity_t<View<Compute<T>, 3>>&, const std::type_identity_t<TermList<Compute<T>>>&,  \
      const std::type_identity_t<AttentionOptions<Compute<T>>>&, const Executor&);                          \
  template void attention_in_regions_backward<T, O>(                                                        \
      const AttentionInputs<T>&, std::span<const Region>, const std::type_identity_t<AttentionResults<O>>&, \
      const std::type_identity_t<AttentionGrads<O>>&, const std::type_identity_t<TermList<Compute<T>>>&,    \
      const std::type_identity_t<AttentionOptions<Compute<T>>>&, const Executor&);
BEARING_EACH_NUMBER_AND_RESULT(BEARING_INSTANTIATE)
#undef BEARING_INSTANTIATE

}  // namespace bearing
