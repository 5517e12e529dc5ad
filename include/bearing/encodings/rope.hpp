#pragma once

#include <bearing/encodings/rope_axes.hpp>
#include <bearing/encodings/rope_scaling.hpp>
#include <bearing/executor.hpp>
#include <bearing/export.hpp>
#include <bearing/half.hpp>
#include <bearing/positions.hpp>
#include <bearing/view.hpp>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

// Rotary position encoding (Su et al. 2021, arXiv 2104.09864): each pair (u, v) of a query's or key's head is turned
// by the token's position p times the pair's frequency θ,
//
//     (u, v) ← a · (u cos pθ − v sin pθ,  u sin pθ + v cos pθ)        a: attention factor, 1 except YaRN and LongRoPE
//
// so that the product of a query at m with a key at n depends on n − m alone.
// In three steps:
//
//     Rope rope{.head_dim = 128, .base = 500'000, .pairing = Pairing::half};      what a config states
//     RopeTable<float> table(rope, 131'072);                                      its cos and sin, exact
//     rotate(table, q, k, Positions(past));                                       in place, on all heads

namespace bearing {

/// Which two elements of a head turn together. There is no default: at position 0 both pairings agree, elsewhere they
/// give different models, and no error would tell.
enum class Pairing {
  interleaved,  ///< (2i, 2i+1)  [cscscscs]: GPT-J, Meta's Llama weights, Cohere, GLM, DeepSeek, ERNIE 4.5
  half,         ///< (i, i+r/2)  [ccccssss]: GPT-NeoX and Hugging Face's rotate_half (Llama, Qwen, Gemma, Phi)
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
  double attention_factor = 1;  ///< a; multiplied by the scaling's factor (YaRN and LongRoPE have one)
  /// α of LeRoPE (arXiv 2607.10134), learned: θ_i is multiplied by e^(α_i), after the scaling. One per pair; empty: 0.
  std::vector<double> log_factors = {};

  /// How many dimensions turn.
  Index turned() const { return rotary_dim == 0 ? head_dim : rotary_dim; }
  /// Two ways to say that the whole head turns are equal: a rotary_dim of 0 and one of head_dim.
  bool operator==(const Rope& other) const {
    const auto rest = [](const Rope& rope) {
      return std::tie(rope.head_dim, rope.base, rope.pairing, rope.scaling, rope.part, rope.axes, rope.attention_factor,
                      rope.log_factors);
    };
    return turned() == other.turned() && rest(*this) == rest(other);
  }
};

/// How angles are computed.
enum class Angles {
  exact,       ///< position·θ as real numbers, θ to 150 bits; cos and sin rounded once (double: within 2 ulp)
  as_float32,  ///< frequencies, product and cos rounded to float32 in Hugging Face's order, as in training
};

/// Whether a scaling leaves a pair's frequency alone, divides it by the whole factor, or something between.
enum class PairChange { kept, blended, scaled };

/// A rotary encoding with its numbers, at one sequence length. It is plain data, to print, to compare or to build:
/// resolve() makes it from a spec, resolve_explicit() from frequencies. Each frequency is held twice, in radians and in
/// quarter turns. Functions that take it throw ShapeError unless the two agree, and RangeError for more than 2^13
/// radians per token.
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
  /// Pairs of each block of the turned dimensions that Pairing::half halves by itself; empty: it halves the whole.
  std::vector<Index> blocks = {};

  Index pairs() const { return rotary_dim / 2; }
};

/// Works out the numbers. `seq_len` is the length in tokens that the frequencies must serve; only dynamic NTK and
/// LongRoPE depend on it, and 0 means the trained length. Throws ShapeError for a spec that contradicts itself (odd or
/// too large rotary_dim, wrong number of factors), RangeError for a number that cannot be (base ≤ 0, factor NaN).
BEARING_EXPORT RopeFrequencies resolve(const Rope& rope, Index seq_len = 0, Angles angles = Angles::exact);

/// The same for frequencies that are given: inv_freq [pairs], radians per token, each taken as exactly that double. The
/// spec's base, scaling and learned factors are not used. Throws as resolve(), and ShapeError unless there is one for
/// each pair.
BEARING_EXPORT RopeFrequencies resolve_explicit(const Rope& rope, View<const double, 1> inv_freq,
                                                double attention_factor = 1);

/// How much a table keeps.
enum class TableMemory {
  full,     ///< cos and sin of every position: length · rotary_dim numbers
  compact,  ///< two short tables, combined by the addition theorem in double: under 1 MiB, same accuracy bounds
};

struct TableOptions {
  /// For resolve(): how many tokens the frequencies must serve. A table must be told it where they depend on it
  /// (dynamic NTK, LongRoPE: depends_on_length()); 0 serves the others.
  Index seq_len = 0;
  Angles angles = Angles::exact;
  TableMemory memory = TableMemory::full;
};

/// cos and sin of every pair, times the attention factor, for positions 0 … length−1. T is float or double.
///
/// The length says how much is kept. It is no limit: cos and sin at other positions (longer, negative, real) are
/// computed when they are needed, to the same accuracy: float ≤ 0.55 ulp to position 2^24 and ≤ 1 ulp to ±2^31, double
/// ≤ 2 ulp where the angle is no nearer to a 0 of the result than 2^-64 of a quarter turn (docs/guide/accuracy.md).
/// That holds in the default floating-point mode (if the thread rounds upward, say, double is off by some 1e-9). Only a
/// table from from_cos_sin() has no other positions. A table does not change after construction: threads may share it.
template <class T>
class BEARING_EXPORT RopeTable {
  static_assert(std::is_floating_point_v<T>, "a table holds float or double: RopeTable<float> serves 16-bit numbers");

 public:
  /// The spec by its name, RopeTable<float>(Rope{…}, length), as braces alone could be either. Throws what resolve()
  /// throws; RangeError for a length below 0, past 2^31, or of more than 2^48 bytes of numbers.
  RopeTable(const Rope& rope, Index length, const TableOptions& options = {}, const Executor& on = {});
  RopeTable(RopeFrequencies frequencies, Index length, TableMemory memory = TableMemory::full, const Executor& on = {});

  /// A table from given numbers, taken as they are: cos and sin [length, pairs]. `rope` gives the geometry (head_dim,
  /// rotary_dim, pairing, part); positions must lie in [0, length).
  static RopeTable from_cos_sin(const Rope& rope, View<const T, 2> cos, View<const T, 2> sin);

  const RopeFrequencies& frequencies() const { return frequencies_; }
  Index length() const { return length_; }
  TableMemory memory() const { return memory_; }
  std::size_t bytes() const;  ///< memory that its numbers take

  /// [length, pairs]; only of a full table (ShapeError otherwise).
  View<const T, 2> cos() const;
  View<const T, 2> sin() const;

  struct Phases;  // what kernels see; src/encodings/rotary/rope_phases.hpp
  /// Throws ShapeError, in the name of `function`, for a table that was moved from.
  const Phases& phases(const char* function = "RopeTable") const {
    if (phases_ == nullptr) refuse_moved(function);
    return *phases_;
  }

  RopeTable(RopeTable&&) noexcept;
  RopeTable& operator=(RopeTable&&) noexcept;
  RopeTable(const RopeTable&);
  RopeTable& operator=(const RopeTable&);
  ~RopeTable();

 private:
  friend struct RopeTableAccess;
  [[noreturn]] static void refuse_moved(const char* function);
  RopeTable(RopeFrequencies frequencies, Index length, TableMemory memory, std::unique_ptr<Phases> phases);

  RopeFrequencies frequencies_;
  Index length_ = 0;
  TableMemory memory_ = TableMemory::full;
  std::unique_ptr<Phases> phases_;
};

/// Writes cos and sin [time, pairs], times the attention factor, at the given positions ([time], one sequence). T:
/// float, double (accuracy as RopeTable's), Bfloat16 or Float16 (rounded once more: ≤ 0.51 ulp). Throws ShapeError for
/// shapes that do not fit and memory that is missing or shared, RangeError as rotate(); nothing is written then.
template <class T>
BEARING_EXPORT void fill(const RopeFrequencies& frequencies, const Positions& positions, View<T, 2> cos, View<T, 2> sin,
                         const Executor& on = {});

/// Rotates x [batch, heads, time, head_dim] in place.
///
///     const RopeTable<float> table(Rope{.head_dim = 64, .pairing = Pairing::half}, 4'096);
///     rotate(table, x, {});                                          positions 0, 1, 2, … of every sequence
///     rotate(table, q, k, Positions(past));                          queries and keys of a decode step
///     rotate(table, q, q_positions, k, k_positions);                 each at its positions
///     rotate_to(table, in, out, {});                                 from one tensor to another
///     rotate_backward(table, d_x, {});                               the gradient, with the same positions
///
/// T: double, float, Bfloat16, Float16; arithmetic in double for double, else float, each product and sum rounded once.
/// Strides are free, but no two elements of what is written may share memory, which is checked by strides: each axis
/// must step over all that the axes with smaller strides span. Nor may q overlap with k, or positions with either. All
/// memory must be the host's.
///
/// Throws ShapeError for memory that is not so, if x's last extent is not the table's head_dim, or if positions do not
/// match x's batch and time or the table's axes; RangeError for a position past ±2^31 or past a given table. Nothing is
/// written then.
template <class T>
BEARING_EXPORT void rotate(const RopeTable<ComputeInPlace<T>>& table, View<T, 4> x, const Positions& positions,
                           const Executor& on = {});

/// Out of place: reads `in`, writes every element of `out`, which has the same shape. The two may be the same view; any
/// other overlap is refused. It has another name, because rotate() with two views takes them as a query and a key.
/// Otherwise as rotate().
template <class T>
BEARING_EXPORT void rotate_to(const RopeTable<ComputeInPlace<T>>& table, std::type_identity_t<View<const T, 4>> in,
                              View<T, 4> out, const Positions& positions, const Executor& on = {});

/// Rotates q [batch, heads, time, head_dim] and k [batch, kv_heads, time, head_dim] in one call, at the same positions.
/// Throws ShapeError if their batch or time differ. Otherwise as rotate() above.
template <class T>
BEARING_EXPORT void rotate(const RopeTable<ComputeInPlace<T>>& table, View<T, 4> q, View<T, 4> k,
                           const Positions& positions, const Executor& on = {});

/// The same, where queries and keys have different positions, and perhaps different lengths.
template <class T>
BEARING_EXPORT void rotate(const RopeTable<ComputeInPlace<T>>& table, View<T, 4> q, const Positions& q_positions,
                           View<T, 4> k, const Positions& k_positions, const Executor& on = {});

/// The gradient of rotate(): d_x = a·R(pθ)ᵀ d_y, in place (d holds d_y before and d_x after). It is the transpose, not
/// the inverse: a is multiplied in as in rotate(). Arguments and errors as rotate().
template <class T>
BEARING_EXPORT void rotate_backward(const RopeTable<ComputeInPlace<T>>& table, View<T, 4> d, const Positions& positions,
                                    const Executor& on = {});

/// The gradient of rotate_to(): reads d_out, writes d_in. Arguments and errors as rotate_to().
template <class T>
BEARING_EXPORT void rotate_backward_to(const RopeTable<ComputeInPlace<T>>& table,
                                       std::type_identity_t<View<const T, 4>> d_out, View<T, 4> d_in,
                                       const Positions& positions, const Executor& on = {});

}  // namespace bearing
