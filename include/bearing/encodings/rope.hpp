#pragma once

#include <bearing/encodings/rope_axes.hpp>
#include <bearing/encodings/rope_scaling.hpp>
#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/half.hpp>
#include <bearing/positions.hpp>
#include <bearing/view.hpp>
#include <memory>
#include <type_traits>
#include <vector>

// Rotary position encoding (Su et al. 2021, arXiv 2104.09864): each pair (u, v) of a query's or key's head is turned
// by the token's position p times the pair's frequency θ,
//
//     (u, v) ← a · (u cos pθ − v sin pθ,  u sin pθ + v cos pθ),        a: attention factor, 1 but for YaRN and LongRoPE
//
// so that the product of a query at m with a key at n depends on n − m alone. In three steps, each a value:
//
//     Rope rope{.head_dim = 128, .base = 500'000, .pairing = Pairing::half};      what a config states
//     RopeTable<float> table(rope, 131'072);                                      its cos and sin, exact
//     rotate(table, q, k, Positions(past));                                       in place, on all heads

namespace bearing {

/// Which two elements of a head turn together. There is no default anywhere: at position 0 both agree, later they
/// give different models, and no error would tell.
enum class Pairing {
  interleaved,  ///< (2i, 2i+1)  [cscscscs]: GPT-J, Meta's Llama weights, Cohere, GLM, DeepSeek, ERNIE 4.5
  half,         ///< (i, i+r/2)  [ccccssss]: GPT-NeoX and Hugging Face's rotate_half; Llama, Qwen, Gemma, Phi there
};

/// Which part of the head turns: rotary_dim dimensions from `begin`. The others pass through.
struct RotaryPart {
  enum class Where { first, last, window };
  Where where = Where::first;
  Index begin = 0;  ///< window only

  static constexpr RotaryPart first() { return {}; }
  static constexpr RotaryPart last() { return {Where::last, 0}; }  ///< MLA: the rope part follows the nope part
  static constexpr RotaryPart window(Index begin) { return {Where::window, begin}; }
  bool operator==(const RotaryPart&) const = default;
};

/// A rotary encoding as a paper or a config states it.
struct Rope {
  Index head_dim = 0;
  Index rotary_dim = 0;  ///< even, ≤ head_dim; 0: the whole head
  double base = 10'000;  ///< rope_theta
  Required<Pairing> pairing;
  RopeScaling scaling = {};
  RotaryPart part = {};
  RopeAxes axes = {};
  double attention_factor = 1;  ///< a, times what the scaling gives of its own (YaRN and LongRoPE do)
  bool operator==(const Rope&) const = default;
};

/// How angles are computed.
enum class Angles {
  exact,       ///< position·θ as real numbers, θ to 150 bits; cos and sin rounded once
  as_float32,  ///< frequencies, product and cos rounded to float32 in Hugging Face's order: what models trained with
};

/// Whether a scaling leaves a pair's frequency alone, divides it by the whole factor, or something between.
enum class PairChange { kept, blended, scaled };

/// A rotary encoding with its numbers, at one sequence length. Plain data: print it, compare it, or build one; from
/// frequencies of your own, resolve_explicit() does. A frequency stands here as radians and as quarter turns, and what
/// takes these numbers throws ShapeError unless both say the same, RangeError for more than 2^13 radians per token.
struct RopeFrequencies {
  Index head_dim = 0, rotary_dim = 0;
  Index begin = 0;  ///< the first turned dimension
  Required<Pairing> pairing;
  Angles angles = Angles::exact;
  double attention_factor = 1;      ///< multiplies cos and sin, so logits by its square
  double softmax_scale_factor = 1;  ///< for attention to multiply its softmax scale with (DeepSeek)
  Index axes = 1;

  std::vector<double> inv_freq = {};  ///< [pairs] θ, radians per token, rounded to nearest
  std::vector<double> inv_freq_rest =
      {};                               ///< [pairs] what rounding left over: inv_freq + inv_freq_rest is θ to 106 bits
  std::vector<Index> axis = {};         ///< [pairs] which coordinate turns the pair
  std::vector<PairChange> change = {};  ///< [pairs]
  /// [3][pairs] θ·2/π, quarter turns per token, as an unevaluated sum of three doubles, largest first.
  std::vector<double> quarter_turns = {};

  Index pairs() const { return rotary_dim / 2; }
};

/// Works out the numbers. `seq_len` is the length in tokens that the frequencies must serve; only dynamic NTK and
/// LongRoPE depend on it, and 0 means the trained length. Throws ShapeError for a spec that contradicts itself (odd or
/// too large rotary_dim, wrong number of factors), RangeError for a number that cannot be (base ≤ 0, factor NaN).
BEARING_EXPORT RopeFrequencies resolve(const Rope& rope, Index seq_len = 0, Angles angles = Angles::exact);

/// The same for frequencies that are given as doubles: θ is taken as exactly inv_freq.
BEARING_EXPORT RopeFrequencies resolve_explicit(const Rope& rope, View<const double, 1> inv_freq,
                                                double attention_factor = 1);

/// How many rows a table keeps.
enum class TableMemory {
  full,     ///< one row per position: length · rotary_dim numbers
  compact,  ///< two short tables, combined by the addition theorem in double: under 1 MiB, same accuracy bounds
};

struct TableOptions {
  Index seq_len = 0;  ///< for resolve(); 0: the table's length
  Angles angles = Angles::exact;
  TableMemory memory = TableMemory::full;
};

/// cos and sin of every pair, times the attention factor, for positions 0 … length−1. T is float or double.
///
/// The length is how much is kept, not a limit: rows for other positions (longer, negative, real) are computed when
/// they are needed, to the same accuracy: float ≤ 0.55 ulp to position 2^24 and ≤ 1 ulp to ±2^31, double ≤ 2 ulp, in
/// the default floating-point mode; where the thread rounds upward, say, double is off by some 1e-9. Only a table that
/// was given its cos and sin knows no others. Immutable after construction: share it between threads freely.
template <class T>
class BEARING_EXPORT RopeTable {
 public:
  /// Throws what resolve() throws; RangeError for a length below 0 or past 2^31, or too large to hold.
  RopeTable(const Rope& rope, Index length, const TableOptions& options = {}, const Executor& on = {});
  RopeTable(RopeFrequencies frequencies, Index length, TableMemory memory = TableMemory::full, const Executor& on = {});

  /// A table from given numbers, taken as they are: cos and sin [length, pairs]. `rope` gives the geometry (head_dim,
  /// rotary_dim, pairing, part); positions must lie in [0, length).
  static RopeTable from_cos_sin(const Rope& rope, View<const T, 2> cos, View<const T, 2> sin);

  const RopeFrequencies& frequencies() const { return frequencies_; }
  Index length() const { return length_; }
  TableMemory memory() const { return memory_; }
  std::size_t bytes() const;  ///< memory held by the rows

  /// [length, pairs]; only of a full table (ShapeError otherwise).
  View<const T, 2> cos() const;
  View<const T, 2> sin() const;

  struct Rows;  // what kernels see; src/encodings/rotary/rope_rows.hpp
  /// Throws ShapeError, in the name of `function`, for a table that was moved from.
  const Rows& rows(const char* function = "RopeTable") const {
    if (rows_ == nullptr) refuse_moved(function);
    return *rows_;
  }

  RopeTable(RopeTable&&) noexcept;
  RopeTable& operator=(RopeTable&&) noexcept;
  RopeTable(const RopeTable&);
  RopeTable& operator=(const RopeTable&);
  ~RopeTable();

 private:
  friend struct RopeTableAccess;
  [[noreturn]] static void refuse_moved(const char* function);
  RopeTable(RopeFrequencies frequencies, Index length, TableMemory memory, std::unique_ptr<Rows> rows);

  RopeFrequencies frequencies_;
  Index length_ = 0;
  TableMemory memory_ = TableMemory::full;
  std::unique_ptr<Rows> rows_;
};

/// cos and sin, times the attention factor, at the given positions ([time], one sequence), written to cos and sin
/// [time, pairs]. T: float, double (accuracy as RopeTable's), Bfloat16 or Float16 (rounded once more: ≤ 0.51 ulp).
template <class T>
BEARING_EXPORT void fill(const RopeFrequencies& frequencies, const Positions& positions, View<T, 2> cos, View<T, 2> sin,
                         const Executor& on = {});

/// Rotates x [batch, heads, time, head_dim] in place. T: double, float, Bfloat16, Float16; arithmetic in double for
/// double, else float, each product and sum rounded once. Any strides, but no two elements of x may share memory.
///
/// Throws ShapeError if x's last extent is not the table's head_dim, if positions do not match x's batch and time or
/// the table's axes; RangeError for a position past ±2^31 or past a given table. Nothing is written then.
template <Writable T>
BEARING_EXPORT void rotate(const RopeTable<Compute<T>>& table, View<T, 4> x, const Positions& positions,
                           const Executor& on = {});

/// Out of place: reads `in`, writes every element of `out`. The two may be the same view, but must not overlap else.
/// A name of its own, because two views that may both be written would read as a query and a key.
template <Writable T>
BEARING_EXPORT void rotate_to(const RopeTable<Compute<T>>& table, std::type_identity_t<View<const T, 4>> in,
                              View<T, 4> out, const Positions& positions, const Executor& on = {});

/// q [batch, heads, time, head_dim] and k [batch, kv_heads, time, head_dim] in one call, at the same positions …
template <Writable T>
BEARING_EXPORT void rotate(const RopeTable<Compute<T>>& table, View<T, 4> q, View<T, 4> k, const Positions& positions,
                           const Executor& on = {});

/// … and at positions of their own.
template <Writable T>
BEARING_EXPORT void rotate(const RopeTable<Compute<T>>& table, View<T, 4> q, const Positions& q_positions, View<T, 4> k,
                           const Positions& k_positions, const Executor& on = {});

/// The gradient: d_x = a·R(pθ)ᵀ d_y, in place (d_y in, d_x out). The transpose, not the inverse: a stays multiplied.
/// Arguments and errors as rotate().
template <Writable T>
BEARING_EXPORT void rotate_backward(const RopeTable<Compute<T>>& table, View<T, 4> d, const Positions& positions,
                                    const Executor& on = {});

template <Writable T>
BEARING_EXPORT void rotate_backward_to(const RopeTable<Compute<T>>& table, std::type_identity_t<View<const T, 4>> d_out,
                                       View<T, 4> d_in, const Positions& positions, const Executor& on = {});

}  // namespace bearing
