#pragma once

#include <bearing/encodings/bert_relative.hpp>

namespace bearing::reference {

/// What BERT's relative keys add to the score of a query q at m and a key k at n: scale · q · table[ρ], with
/// ρ = m − n + max_position_embeddings − 1, and scale · k · table[ρ] for relative_key_query.
BEARING_EXPORT double bert_relative(const BertRelative& bert, View<const double, 2> table, double m, double n,
                                    View<const double, 1> q, View<const double, 1> k, double scale);

/// Wav2Vec2-BERT's: scale · q · table[clip(n − m, −left, right) + left].
BEARING_EXPORT double wav2vec2_bert_relative(const Wav2Vec2BertRelative& clipped, View<const double, 2> table, double m,
                                             double n, View<const double, 1> q, double scale);

}  // namespace bearing::reference
