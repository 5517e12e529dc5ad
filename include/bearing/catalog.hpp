#pragma once

#include <bearing/description.hpp>
#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/inspect.hpp>
#include <bearing/positions.hpp>
#include <bearing/term.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// Every encoding of the library, each with an example behind one interface. `bearing list`, `check`, `compare` and
// `table` work on these.

namespace bearing::inspect {

/// How large an example is. Parameters that a model would learn are drawn with `seed`.
struct SpecimenOptions {
  Index heads = 8;
  Index dim = 64;      ///< of a head; of the input for encodings that are added there
  Index length = 512;  ///< tokens it is trained for: a table's rows, a window's patches
  std::uint64_t seed = 1;
};

/// Coordinates of an image that do not count patches: patch i of n stands at ((2 i + 1)/n − 1) span, on either axis.
struct Spanned {
  GridSize grid = {};
  double span = 0;  ///< 0: they count patches
};

/// Tokens with their positions: 0, 1, 2, … of a sequence, or the patches of an image, row by row.
class BEARING_EXPORT Tokens {
 public:
  /// `width` 0: a sequence. Else token t stands at (t / width, t % width), which `spanned` may map to coordinates.
  /// `shift` is added to every place.
  Tokens(Index count, Index first, Index shift = 0, Index width = 0, const Spanned& spanned = {});
  /// A sequence whose tokens stand at these positions.
  explicit Tokens(std::vector<Index> positions);

  Index count() const { return count_; }
  Positions at() const;
  /// Every token `times` times, one after the other.
  Tokens repeated(Index times) const;

 private:
  Index count_, first_, width_;
  std::vector<Index> places_;        // [2, 1, count] of an image, [count] of a sequence that does not count up
  std::vector<double> coordinates_;  // the same, where they do not count patches
};

/// An encoding with its numbers, for any sites that it acts on. Functions of other sites are null. All in double.
struct Specimen {
  SpecimenOptions options;
  GridSize grid = {};                    ///< of an image, in patches; without columns: it serves sequences
  double span = 0;                       ///< patches stand from −span to span across the grid; 0: they are counted
  bool causal = false;                   ///< meant for keys up to the query only
  Index parameters = 0;                  ///< numbers that training learns
  Index held = 0;                        ///< numbers that stay in memory between calls: parameters and tables
  bool by_index = false;                 ///< does not look at positions, but at the tokens' indices
  bool own_numbers = false;              ///< none is drawn: they are the caller's, such as a trained model's
  Index own_tokens = 0;                  ///< so many tokens, from 0 on, have such numbers; 0: no end was found
  std::vector<double> frequencies = {};  ///< of a RoPE's pairs, in radians per token, as the example turns them

  std::function<void(const Positions& positions, View<double, 3> rows, const Executor& on)> input_rows = {};
  std::function<void(Side side, const Positions& positions, View<const double, 4> x, View<double, 4> y,
                     const Executor& on)>
      turn_rows = {};
  std::function<Index(Index dim)> out_dim = {};  ///< of turned rows; null: dim
  std::function<void(const Positions& q_positions, const Positions& k_positions, View<const double, 4> q,
                     View<const double, 4> k, View<double, 4> scores, const Executor& on)>
      score_terms = {};
  std::function<void(const Positions& q_positions, const Positions& k_positions, View<const double, 4> p,
                     View<double, 4> out, const Executor& on)>
      value_terms = {};
  /// Values, before they are added up, and their sums after: as turn_rows, for keys and for queries.
  std::function<void(Side side, const Positions& positions, View<const double, 4> x, View<double, 4> y,
                     const Executor& on)>
      turn_values = {};

  /// p(i): [1, tokens, dim].
  BEARING_EXPORT Array inputs(const Tokens& positions, const Executor& on = {}) const;
  /// T x: [heads, tokens, out_dim] of x [heads, tokens, dim].
  BEARING_EXPORT Array turn(Side side, const Tokens& positions, const Array& x, const Executor& on = {}) const;
  /// What the score site adds, with softmax scale 1/√dim: [heads, queries, keys].
  BEARING_EXPORT Array scores(const Tokens& q_positions, const Tokens& k_positions, const Array& q, const Array& k,
                              const Executor& on = {}) const;
  /// Σ_j p_ij V[ρ(i, j)]: [heads, queries, dim].
  BEARING_EXPORT Array values(const Tokens& q_positions, const Tokens& k_positions, const Array& p,
                              const Executor& on = {}) const;
  /// B_i Σ_j p_ij T_j v_j, of values v [heads, keys, dim] that turn: [heads, queries, dim].
  BEARING_EXPORT Array turned_values(const Tokens& q_positions, const Tokens& k_positions, const Array& p,
                                     const Array& v, const Executor& on = {}) const;

  /// The logits of attention: T(q + p) · T(k + p) / √dim + the score site's terms. Input encodings are added to the
  /// rows of every head, as if the projections were the identity.
  BEARING_EXPORT Array logits(const Tokens& q_positions, const Tokens& k_positions, const Array& q, const Array& k,
                              const Executor& on = {}) const;

  /// `count` tokens as this encoding takes them, a sequence or an image's patches; each coordinate moved by `shift`.
  Tokens tokens(Index count, Index first = 0, Index shift = 0) const {
    return in_rows(grid.width, count, first, shift);
  }
  /// The same in rows of another width, at their places in the grid.
  Tokens in_rows(Index width, Index count, Index first = 0, Index shift = 0) const {
    return {count, first, shift, width, {grid, span}};
  }

  /// Whether its tokens are the patches of an image.
  bool is_image() const { return grid.width > 0; }
  /// How many tokens lie in a line: all, or a row of an image.
  Index line() const { return is_image() ? grid.width : options.length; }
};

/// All encodings, in the order of the sites: input, query/key, score, value, none.
BEARING_EXPORT const std::vector<Description>& catalog();

/// Null if no encoding has that name or alias.
BEARING_EXPORT const Description* find(std::string_view name);

/// An example of `spec`, or of what the name stands for at these sizes if `spec` is empty. Throws RangeError for heads,
/// dim or length outside 1 … 2^20 and for an example that would hold more than 2^27 numbers, and what the encoding's
/// constructors throw (for an odd dim, say).
BEARING_EXPORT Specimen make(const Description& entry, const SpecimenOptions& options = {}, const Record& spec = {});

/// What to tell somebody who asked for a length of which an image's grid does not consist: "9 tokens are taken, not 12:
/// …"; "" where the example has as many tokens, or nobody asked for a number (0).
BEARING_EXPORT std::string length_note(Index asked, Index taken);

/// An example with the caller's numbers in place of drawn ones: what `made`, an encoding of `info` and `spec`, does at
/// these sizes. What it borrows must live as long as the example.
BEARING_EXPORT Specimen make_with(const EncodingInfo& info, const Record& spec, const Made<double>& made,
                                  const SpecimenOptions& options);

/// An encoding with numbers of the caller's, such as those that a model learned.
struct OwnNumbers {
  const EncodingInfo* encoding = nullptr;
  Record spec = {}, settings = {};               ///< settings: none for their defaults
  std::vector<ParameterMemory> parameters = {};  ///< in float64, one for each of the encoding's
  Sizes said = {};                               ///< heads, dim and length as the spec or the caller says them
};

/// What with_numbers() makes.
struct Numbered {
  Description description;
  Sizes sizes;  ///< heads, dim and length, as what was said and the numbers tell; 0: nothing tells
};

/// `entry`, a name of that encoding, with these numbers in all of its examples. They are copied. What make(), check(),
/// compare() and figure() then say is said of them; no seed draws any. Numbers that belong to tokens (of a learned
/// table, gates, a dense bias) serve tokens 0, 1, … up to their last, and examples of fewer tokens use the first of
/// them: make() throws RangeError for a length past it. The example's calls throw it for a position that names none of
/// these tokens; and where numbers add up from token to token, for queries that are not the last of the keys. Throws
/// ShapeError for numbers of several sequences, and for those of queries and of keys that are not as many, and what the
/// encoding's constructor throws.
BEARING_EXPORT Numbered with_numbers(const Description& entry, const OwnNumbers& numbers);

/// What the content of query and key is, in mean_scores().
enum class Contents {
  alike,        ///< the same signs, ±1: every pair of a rotation has the same norm
  independent,  ///< normal numbers, drawn apart for query and key
};

/// Where the keys of mean_scores() stand. An encoding may depend on distance in one direction only.
enum class Keys {
  before,  ///< before the query, which is the last token
  after,   ///< after the query, which is the first one
};

/// The score of a key k tokens from the query, in column k = 0 … n − 1, the mean over `draws` contents: [1, heads, n].
/// n is the length, or the width of an image's grid (its tokens stand side by side). For an encoding of the input no
/// content is added; for a bias no product of contents is. decay() describes how such a curve falls. Throws RangeError
/// for draws < 1.
BEARING_EXPORT Array mean_scores(const Specimen& specimen, Index draws, Contents contents = Contents::alike,
                                 Keys keys = Keys::before, const Executor& on = {});

/// The sites that the example acts on: "input", "query/key", "score", "score, value", "value" or "none".
BEARING_EXPORT std::string sites(const Specimen& specimen);

}  // namespace bearing::inspect
