#include <algorithm>
#include <bearing/encodings/deberta.hpp>
#include <bearing/error.hpp>
#include <cmath>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "terms/relation.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

/// No two positions are further apart.
constexpr Index most_distance = IndexMap::farthest;

void check_spec(const char* function, const Deberta& deberta) {
  const Index span = deberta.max_relative_positions, buckets = deberta.position_buckets;
  if (span < 1) {
    throw RangeError(concat("[", function, "] max_relative_positions: must be at least 1, got ", span));
  }
  if (buckets < 0 || buckets == 1) {
    throw RangeError(concat("[", function, "] position_buckets: must be 0 (none) or at least 2, got ", buckets));
  }
  if (buckets > 0 && span - 1 <= buckets / 2) {
    throw RangeError(concat("[", function, "] max_relative_positions: must be at least ", buckets / 2 + 2, " for ",
                            buckets, " position_buckets, got ", span));
  }
  if (span > max_position || buckets > max_position) {
    throw RangeError(concat("[", function, "] max_relative_positions, position_buckets: must be at most ", max_position,
                            ", got ", span, ", ", buckets));
  }
}

/// The bucket of a whole |x|, for a spec with buckets.
Index log_bucket(const Deberta& deberta, Index size) {
  const Index mid = deberta.position_buckets / 2;
  if (size <= mid) return size;
  const auto from = static_cast<double>(mid);
  const double reach = std::log(static_cast<double>(deberta.max_relative_positions - 1) / from);
  double part = std::log(static_cast<double>(size) / from) / reach * (from - 1);
  // Where the logarithms are in a whole ratio, rounding must not lift it: three roundings of numbers up to mid.
  if (const double whole = std::round(part); std::abs(part - whole) <= from * 0x1p-50) part = whole;
  return mid + static_cast<Index>(std::ceil(part));
}

/// For each bucket past mid the least distance that reaches it.
std::vector<Index> thresholds(const Deberta& deberta) {
  std::vector<Index> from;
  Index below = deberta.position_buckets / 2;  // never reaches what is searched for
  for (Index bucket = below + 1; bucket <= deberta.position_buckets; ++bucket) {
    Index step = 1;
    while (below + step <= most_distance && log_bucket(deberta, below + step) < bucket) step *= 2;
    Index above = std::min(below + step, most_distance + 1);  // reaches it, or is past every distance
    Index low = below;
    while (above - low > 1) {
      const Index middle = low + (above - low) / 2;
      (log_bucket(deberta, middle) < bucket ? low : above) = middle;
    }
    from.push_back(above);
    below = above - 1;
  }
  return from;
}

template <class A>
void check_table(const char* name, const Param<A, 3>& table, bool used, Index rows) {
  if (!used) {
    if (table.value.data == nullptr && table.grad.data == nullptr) return;
    throw ShapeError(concat("[DebertaTerm] ", name, ": must be empty, as the spec switches its term off"));
  }
  const auto& shape = table.value.shape;
  if (shape[1] != rows || shape[2] < 1 || (table.value.stride[2] != 1 && shape[2] > 1)) {
    throw ShapeError(concat("[DebertaTerm] ", name, ": must be [heads, ", rows,
                            ", dim] with features side by side, got shape ", shape, ", strides ", table.value.stride));
  }
  check_tensor("DebertaTerm", name, table.value);
  if (table.grad.data != nullptr && table.grad.shape != shape) {
    throw ShapeError(
        concat("[DebertaTerm] ", name, ".grad: must have the shape of the table, ", shape, ", got ", table.grad.shape));
  }
  check_grad("DebertaTerm", name, table);
}

}  // namespace

Index deberta_bucket(const Deberta& deberta, Index distance) {
  check_spec("deberta_bucket", deberta);
  if (distance < -most_distance || distance > most_distance) {
    throw RangeError(
        concat("[deberta_bucket] distance: must be at most ", most_distance, " either way, got ", distance));
  }
  const Index x = -distance;
  if (deberta.position_buckets == 0) return x;
  return x < 0 ? -log_bucket(deberta, -x) : log_bucket(deberta, x);
}

double deberta_softmax_scale(const Deberta& deberta, Index dim) {
  if (dim < 1) throw RangeError(concat("[deberta_softmax_scale] dim: must be at least 1, got ", dim));
  const Index products = 1 + (deberta.c2p() ? 1 : 0) + (deberta.p2c() ? 1 : 0);
  return 1 / std::sqrt(static_cast<double>(dim * products));
}

template <class A>
DebertaTerm<A>::DebertaTerm(const Deberta& deberta, Param<A, 3> key, Param<A, 3> query)
    : deberta_(deberta), key_(key), query_(query) {
  check_spec("DebertaTerm", deberta);
  check_table("key", key, deberta.c2p(), 2 * deberta.span());
  check_table("query", query, deberta.p2c(), 2 * deberta.span());
  if (deberta.c2p() && deberta.p2c() && key.value.shape != query.value.shape) {
    throw ShapeError(concat("[DebertaTerm] key, query: must have the same shape, got ", key.value.shape, " and ",
                            query.value.shape));
  }
  const auto [in_key, in_query] = grad_block(0, 0).offsets();
  const Index span = deberta.span();
  // The code's rows count query minus key, from −span on; the paper's p2c counts from the other end.
  IndexMap code{.zero = span, .step = -1, .least = 1 - span, .most = span};
  if (deberta.position_buckets > 0) {
    from_ = std::make_shared<const std::vector<Index>>(thresholds(deberta));
    code.linear = deberta.position_buckets / 2;
    code.thresholds = dense(from_->data(), static_cast<Index>(from_->size()));
  }
  IndexMap of_keys = code;
  if (deberta.index == DebertaIndex::paper) of_keys.step = 1, of_keys.least = -span, of_keys.most = span - 1;
  if (deberta.c2p()) terms_.add({.table = key.value, .map = code, .table_block = in_key});
  if (deberta.p2c()) terms_.add({.operand = Side::key, .table = query.value, .map = of_keys, .table_block = in_query});
}

template <class A>
void DebertaTerm<A>::check(const char* function, const Problem& problem) const {
  check_present(function, "Deberta", deberta_.position_buckets == 0 || from_ != nullptr);
  const auto& shape = (deberta_.c2p() ? key_ : query_).value.shape;
  if (shape[0] != problem.heads || shape[2] != problem.dim) {
    throw ShapeError(concat("[", function, "] Deberta.", deberta_.c2p() ? "key" : "query",
                            ": must be for queries and keys of ", problem.heads, " heads of ", problem.dim,
                            " features, got shape ", shape));
  }
  check_whole(function, "Deberta", problem);
}

template <class A>
void DebertaTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  relation::add_scores(rows_by_index(), tile, s);
}

template <class A>
void DebertaTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  relation::add_score_grads(rows_by_index(), tile, d_s, grads);
}

template <class A>
Index DebertaTerm<A>::scratch_size(Index rows, Index cols) const {
  return relation::scratch_size(rows_by_index(), rows, cols);
}

template class DebertaTerm<float>;
template class DebertaTerm<double>;

template <>
struct describe::Words<DebertaTerms> {
  static constexpr const char* all[] = {"both", "c2p", "p2c"};
};

template <>
struct describe::Words<DebertaIndex> {
  static constexpr const char* all[] = {"code", "paper"};
};

void describe_deberta(Describer& to) {
  to.home("deberta", {"He et al.", 2021, "arXiv 2006.03654"});
  to.record(
        "Deberta", Deberta{},
        "DeBERTa's disentangled attention: content times positions twice, as query (c2p) and as key (p2c).\n\n"
        "    s_ij <- s_ij + scale [q_i Kr[d] + k_j Qr[d']]        d = clamp(bucket(m - n) + span, 0, 2 span - 1)\n\n"
        "He, Liu, Gao, Chen 2021, arXiv 2006.03654; v3: arXiv 2111.09543.")
      .member("max_relative_positions", &Deberta::max_relative_positions,
              "A config's max_relative_positions; if that is -1, its max_position_embeddings.")
      .member("position_buckets", &Deberta::position_buckets,
              "A config's position_buckets; 0 for none (-1 in a config).")
      .member("terms", &Deberta::terms,
              "'c2p': the query's content is multiplied with positions, 'p2c': the key's, or 'both'.")
      .member("index", &Deberta::index, "'code' takes d' = d, as models were trained, 'paper' the bucket of n - m.")
      .method("span", &Deberta::span, {}, "Half the rows of the tables.");
  const NamedExtent rows("2 span", [](const Record& spec, const Sizes&) { return 2 * spec.as<Deberta>()->span(); });
  const auto buckets = [](Index count) {
    return [count](const ExampleSize&) { return Deberta{.position_buckets = count}; };
  };
  to.encoding<Deberta, 3, 3>(
        "DebertaTerm",
        "Both of DeBERTa's terms.\n\n"
        "    s_ij <- s_ij + scale [q_i Kr[d] + k_j Qr[d']]\n\n"
        "key is Kr, query is Qr, [heads, 2 spec.span(), dim]: the relative embeddings after their projections; None "
        "for a\n"
        "term that the spec switches off. The caller passes scale: deberta_softmax_scale(spec, dim).\n\n"
        "He, Liu, Gao, Chen 2021, arXiv 2006.03654.",
        {Parameter("key", {"heads", rows, "dim"}, "Kr: relative embeddings, projected as keys.")
             .starts(normal(0.02))
             .draws(normal(1))
             .only_if([](const Record& spec) { return spec.as<Deberta>()->c2p(); }),
         Parameter("query", {"heads", rows, "dim"}, "Qr: relative embeddings, projected as queries.")
             .starts(normal(0.02))
             .draws(normal(1))
             .only_if([](const Record& spec) { return spec.as<Deberta>()->p2c(); })},
        make_with_spec<DebertaTerm>)
      .form(Form::rows_by_index)
      .whole_positions()
      .reads_content()
      .both_sides()
      .softmax_scale(deberta_softmax_scale)
      .called("deberta", "DeBERTa", "content meets distance both ways", buckets(0))
      .called("deberta_v2", "DeBERTa v2 and v3", "DeBERTa with buckets of distance", buckets(256))
      .also({"deberta_v3"});
  to.function("deberta_bucket", deberta_bucket, {"spec", "distance"},
              "Returns the bucket of a key at a distance n - m: key minus query, as everywhere here. The bucket has "
              "DeBERTa's own\n"
              "sign, query minus key, positive for keys before the query: make_log_bucket_position(r) is\n"
              "deberta_bucket(spec, -r).");
  to.function("deberta_softmax_scale", deberta_softmax_scale, {"spec", "dim"},
              "Returns the softmax scale of every product in the score: 1/sqrt(dim (1 + terms)).");
}

}  // namespace bearing
