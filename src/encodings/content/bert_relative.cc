#include <algorithm>
#include <bearing/encodings/bert_relative.hpp>
#include <bearing/error.hpp>

#include "describe/describer.hpp"
#include "terms/checks.hpp"
#include "terms/relation.hpp"
#include "text.hpp"

namespace bearing {

using text::concat;

namespace {

void check(const char* function, const BertRelative& bert) {
  if (bert.max_position_embeddings >= 1 && bert.max_position_embeddings <= max_position) return;
  throw RangeError(
      concat("[", function, "] max_position_embeddings: must be from 1 to 2^31, got ", bert.max_position_embeddings));
}

void check(const char* function, const Wav2Vec2BertRelative& clipped) {
  const auto [left, right] = clipped;
  if (left >= 0 && right >= 0 && left <= max_position && right <= max_position) return;
  throw RangeError(concat("[", function, "] left, right: must be from 0 to 2^31, got ", left, ", ", right));
}

template <class A>
void check_table(const Param<A, 2>& table, const char* rows_are, Index rows) {
  if (table.value.shape[0] != rows) {
    throw ShapeError(concat("[BertRelativeTerm] table: must be [", rows_are, ", dim] = [", rows, ", dim], got shape ",
                            table.value.shape));
  }
  check_tensor("BertRelativeTerm", "table", table.value);
  check_features("BertRelativeTerm", "table", table);
}

}  // namespace

Index BertRelative::rows() const {
  check("BertRelative", *this);
  return 2 * max_position_embeddings - 1;
}

Index BertRelative::row(Index distance) const {
  check("BertRelative", *this);
  if (distance <= -max_position_embeddings || distance >= max_position_embeddings) {
    throw RangeError(concat("[BertRelative] distance: must be less than max_position_embeddings = ",
                            max_position_embeddings, " either way, got ", distance));
  }
  return max_position_embeddings - 1 - distance;
}

Index Wav2Vec2BertRelative::row(Index distance) const {
  check("Wav2Vec2BertRelative", *this);
  return std::clamp(distance, -left, right) + left;
}

Index Wav2Vec2BertRelative::rows() const {
  check("Wav2Vec2BertRelative", *this);
  return left + right + 1;
}

template <class A>
BertRelativeTerm<A>::BertRelativeTerm(const BertRelative& bert, Param<A, 2> table) : clipped_(false), table_(table) {
  bearing::check("BertRelativeTerm", bert);
  least_ = 1 - bert.max_position_embeddings;
  most_ = bert.max_position_embeddings - 1;
  check_table(table, "2 max_position_embeddings - 1", bert.rows());
  const IndexMap map{.zero = most_, .step = -1, .least = least_, .most = most_};
  const Index in_table = grad_block(0, 0).offsets()[0];
  terms_.add({.operand = Side::query, .table = relation::shared(table.value), .map = map, .table_block = in_table});
  if (bert.position_embedding_type == BertRelativeType::relative_key) return;
  terms_.add({.operand = Side::key, .table = relation::shared(table.value), .map = map, .table_block = in_table});
}

template <class A>
BertRelativeTerm<A>::BertRelativeTerm(const Wav2Vec2BertRelative& clipped, Param<A, 2> table)
    : clipped_(true), table_(table) {
  bearing::check("BertRelativeTerm", clipped);
  least_ = -clipped.left;
  most_ = clipped.right;
  check_table(table, "left + right + 1", clipped.rows());
  terms_.add({.table = relation::shared(table.value),
              .map = {.zero = clipped.left, .least = least_, .most = most_},
              .table_block = grad_block(0, 0).offsets()[0]});
}

template <class A>
void BertRelativeTerm<A>::check(const char* function, const Problem& problem) const {
  check_whole(function, "BertRelative", problem);
  check_dim(function, "BertRelative.table", table_.value.shape[1], problem);
  if (clipped_) return;  // every distance has a row
  for (Index b = 0; b < problem.batch && problem.q_len > 0 && problem.k_len > 0; ++b) {
    const auto [least, most] = relation::reach(problem, b);
    if (least < least_ || most > most_) {
      throw RangeError(concat("[", function, "] q_positions, k_positions: must be less than max_position_embeddings = ",
                              most_ + 1, " apart for BertRelative, got ", std::max(-least, most)));
    }
  }
}

template <class A>
void BertRelativeTerm<A>::add_scores(const Tile<A>& tile, A* s) const {
  relation::add_scores(rows_by_index(), tile, s);
}

template <class A>
void BertRelativeTerm<A>::add_score_grads(const Tile<A>& tile, const A* d_s, const TileGrads<A>& grads) const {
  relation::add_score_grads(rows_by_index(), tile, d_s, grads);
}

template <class A>
Index BertRelativeTerm<A>::scratch_size(Index rows, Index cols) const {
  return relation::scratch_size(rows_by_index(), rows, cols);
}

template class BertRelativeTerm<float>;
template class BertRelativeTerm<double>;

template <>
struct describe::Words<BertRelativeType> {
  static constexpr const char* all[] = {"relative_key", "relative_key_query"};
};

namespace {

void describe_records(Describer& to) {
  to.record("BertRelative", BertRelative{},
            "Vectors by distance for keys alone, as Hugging Face's BERT has them (position_embedding_type).\n\n"
            "    s_ij <- s_ij + scale q_i E[rho]  (+ scale k_j E[rho] for relative_key_query)\n"
            "    rho = m - n + max_position_embeddings - 1\n\n"
            "Huang, Liang, Xu, Xiang 2020, arXiv 2009.13658, after Shaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.")
      .member("max_position_embeddings", &BertRelative::max_position_embeddings, "Positions that the table serves.")
      .member("position_embedding_type", &BertRelative::position_embedding_type,
              "Whether queries alone are multiplied with the vectors, or keys too.")
      .method("rows", &BertRelative::rows, {}, "Rows of the table: 2 max_position_embeddings - 1.")
      .method("row", &BertRelative::row, {"distance"},
              "The row of a distance, key minus query. Raises RangeError for a distance without a row.");
  to.record("Wav2Vec2BertRelative", Wav2Vec2BertRelative{},
            "Vectors by clipped distance for keys, as Wav2Vec2-BERT has them.\n\n"
            "    s_ij <- s_ij + scale q_i E[rho]        rho = clip(n - m, -left, right) + left\n\n"
            "After Shaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155.")
      .member("left", &Wav2Vec2BertRelative::left, "A config's left_max_position_embeddings.")
      .member("right", &Wav2Vec2BertRelative::right, "A config's right_max_position_embeddings.")
      .method("rows", &Wav2Vec2BertRelative::rows, {}, "Rows of the table: left + right + 1.")
      .method("row", &Wav2Vec2BertRelative::row, {"distance"},
              "The row of a distance, key minus query; farther ones share the last rows.");
}

using Either = std::variant<BertRelative, Wav2Vec2BertRelative>;

Index rows_of(const Record& spec, const Sizes&) {
  return std::visit([](const auto& bert) { return bert.rows(); }, ValueOf<Either>::from(spec));
}

}  // namespace

void describe_bert_relative(Describer& to) {
  to.home("bert_relative", {"Huang et al.", 2020, "arXiv 2009.13658"});
  describe_records(to);
  const auto of_type = [](BertRelativeType type) {
    return [type](const ExampleSize& size) {
      return BertRelative{.max_position_embeddings = size.length, .position_embedding_type = type};
    };
  };
  to.encoding<Either, 2>("BertRelativeTerm",
                         "BERT's or Wav2Vec2-BERT's relative keys: table [spec.rows(), dim], shared by all heads.\n\n"
                         "    s_ij <- s_ij + scale q_i E[rho]  (+ scale k_j E[rho] for relative_key_query)\n\n"
                         "Positions are whole numbers; for BERT they differ by less than max_position_embeddings.\n\n"
                         "Huang, Liang, Xu, Xiang 2020, arXiv 2009.13658.",
                         {Parameter("table", {{"spec.rows()", rows_of}, "dim"}, "A vector for each distance.")
                              .starts(normal(0.02))
                              .draws(normal(1))},
                         []<class A>(const Either& either, const Param<A, 2>& table) {
                           return std::visit([&](const auto& bert) { return BertRelativeTerm<A>(bert, table); },
                                             either);
                         })
      .form(Form::rows_by_index)
      .whole_positions()
      .reads_content()
      .both_sides()
      .called("bert_relative_key", "BERT, relative_key", "vectors per distance meet queries",
              of_type(BertRelativeType::relative_key))
      .also({"relative_key"})
      .called("bert_relative_key_query", "BERT, relative_key_query", "vectors per distance meet queries and keys",
              of_type(BertRelativeType::relative_key_query))
      .also({"relative_key_query"})
      .called("wav2vec2_bert", "Wav2Vec2-BERT, relative_key", "vectors per distance, clipped, meet queries",
              [](const ExampleSize&) { return Wav2Vec2BertRelative{}; })
      .published({"Seamless team", 2023, "arXiv 2312.05187"})
      .also({"wav2vec2_bert_relative"});
}

}  // namespace bearing
