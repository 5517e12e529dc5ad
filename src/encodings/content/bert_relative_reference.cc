#include <algorithm>
#include <bearing/reference/bert_relative.hpp>

namespace bearing::reference {

double bert_relative(const BertRelative& bert, View<const double, 2> table, double m, double n, View<const double, 1> q,
                     View<const double, 1> k, double scale) {
  const Index row = static_cast<Index>(m - n) + bert.max_position_embeddings - 1;
  double product = 0;
  for (Index d = 0; d < q.shape[0]; ++d) {
    product += q(d) * table(row, d);
    if (bert.position_embedding_type == BertRelativeType::relative_key_query) product += k(d) * table(row, d);
  }
  return scale * product;
}

double wav2vec2_bert_relative(const Wav2Vec2BertRelative& clipped, View<const double, 2> table, double m, double n,
                              View<const double, 1> q, double scale) {
  const Index row = std::clamp(static_cast<Index>(n - m), -clipped.left, clipped.right) + clipped.left;
  double product = 0;
  for (Index d = 0; d < q.shape[0]; ++d) product += q(d) * table(row, d);
  return scale * product;
}

}  // namespace bearing::reference
