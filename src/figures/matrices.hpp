#pragma once

#include "figures/parts.hpp"

// What kinds that look at every two tokens have in common: contents, heads, tokens, matrices.

namespace bearing::inspect {

/// Cells on a side: more are not seen.
inline constexpr Index most_cells = 1024;

/// Contents [heads, count, dim] from the seed: half of each row is its own, drawn with variance 1, and half is ±1 that
/// all tokens share, as the queries and keys of a model have something in common. `which` tells the own halves apart.
Array half_alike_contents(const Specimen& specimen, Index count, std::uint64_t which);
/// `count` rows of the same content, ±1/√2: every pair of dimensions has norm 1. Zeros where the encoding acts on the
/// input alone, so that products are those of positions.
Array alike_contents(const Specimen& specimen, Index count);

/// The heads to draw: the one that is asked for, else some, `most` of them. Throws RangeError for one that there is
/// not.
std::vector<Index> heads_to_draw(const Shown& shown, const FigureOptions& options, Index most);

/// Tokens of an example, every `step`-th where it has more than most_cells.
struct Thinned {
  Tokens at;
  Index step = 1;
};
/// Throws RangeError for too long an image, and where indices stand for positions.
Thinned thinned(const Shown& shown);

/// "key (token, every 4th)", or of an image "key (patch, row by row)".
std::string token_title(const Shown& shown, const std::string& what, Index step);

/// A matrix from `numbers`, row 0 on top. Infinite numbers become NaN.
Cells cells_from_top(const Array& numbers, Index head, Index row_step = 1);
/// Head `head` of scores: queries from the top, keys from the left; every `step`-th of both.
Panel token_panel(const Shown& shown, const Array& scores, Index head, Index step = 1);
/// NaN where the key comes after the query: rows and columns are the same tokens.
void hide_later_keys(Array& scores);

/// All matrices get one scale of colours: diverging around 0 where numbers of both signs are among them.
void scale_colours(std::vector<Panel>& panels);
/// What the numbers of a matrix reach over.
Range range_of(const Cells& cells);

}  // namespace bearing::inspect
