#pragma once

#include <bearing/encodings/learned.hpp>
#include <bearing/encodings/rope.hpp>
#include <bearing/export.hpp>
#include <string>
#include <vector>

// What the numbers of a rotary encoding mean: what `bearing config` prints.

namespace bearing {

/// 2π/|θ|, how many tokens a pair needs for one turn; [pairs]. Infinity for a pair that does not turn.
BEARING_EXPORT std::vector<double> wavelengths(const RopeFrequencies& frequencies);

/// Neighbouring pairs that a scaling treats alike: first … last, both included.
struct PairRun {
  PairChange change;
  Index first, last;
  bool operator==(const PairRun&) const = default;
};
BEARING_EXPORT std::vector<PairRun> pair_runs(const RopeFrequencies& frequencies);

/// The pairs that turn, but less than once in `length` tokens (wavelength > length), in order.
BEARING_EXPORT std::vector<Index> unfinished_pairs(const RopeFrequencies& frequencies, Index length);

/// The error of an angle, and the pair and position where it occurs.
struct AngleError {
  double radians = 0;
  Index pair = 0, position = 0;
};

/// The largest error of angles computed as Hugging Face's code does (Angles::as_float32: frequency, position and their
/// product each rounded to float32), over all pairs and the last 4,096 positions below `length`. It grows with the
/// position: half of it is the frequency's rounding, the rest half an ulp of the product. Throws as resolve(), and
/// RangeError for a length below 1 or past 2^31.
BEARING_EXPORT AngleError float32_angle_error(const Rope& rope, Index length, Index seq_len = 0);

/// Lengths in tokens; 0 where one is not known.
struct RopeLengths {
  Index trained = 0;        ///< before any stretching
  Index longest = 0;        ///< the longest that the model is used at
  Index seq_len = 0;        ///< for resolve()
  Index window = 0;         ///< how many tokens up to a query, with it, the layer sees; 0: all
  Index after = 0;          ///< … and after it, where the layer looks both ways
  bool chunked = false;     ///< the window is a chunk: a token sees what is in its own, before it or, with `after`, all
  Index chunks_before = 0;  ///< … and how many chunks before its own; −1: all of them
  Index unplaced = 0;       ///< how many other layers have no positions (NoPE) and see all of the text
  bool patches = false;     ///< positions are places of patches in an image, a coordinate for each axis
  GridSize grid = {};       ///< … of which training had so many, rows by columns; 0: not known
  double span = 0;  ///< … and they run from −span to span across the image, whatever its size; 0: they count
};

/// What a position counts: "tokens", "patches" along an axis, or "units" of a coordinate that spans an image.
BEARING_EXPORT const char* position_unit(const RopeLengths& lengths, Index axes);

/// Warnings about the numbers, one sentence each: pairs that completed no turn in training, before any scaling, and the
/// length past which they reach new angles; angles whose float32
/// error exceeds 2^-6, eight times bf16's rounding of a cosine, which happens in contexts past 131,072 tokens;
/// frequencies that change with the length while cached keys do not; a factor that attention has to apply.
BEARING_EXPORT std::vector<std::string> rope_warnings(const Rope& rope, const RopeLengths& lengths);

}  // namespace bearing
