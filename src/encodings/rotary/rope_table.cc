#include <algorithm>
#include <bearing/encodings/rope.hpp>
#include <bearing/error.hpp>
#include <bearing/term.hpp>
#include <cmath>

#include "encodings/rotary/rope_phases.hpp"
#include "tensor_checks.hpp"
#include "text.hpp"
#include "workers.hpp"

namespace bearing {

namespace {

/// Throws unless a pair's frequency is the same in radians and in quarter turns: θ = turns·π/2, each to what its two
/// leading doubles hold.
void check_pair(const RopeFrequencies& f, std::size_t pair) {
  constexpr double quarter = 0x1.921fb54442d18p+0, quarter_rest = 0x1.1a62633145c07p-54;  // π/2
  const std::size_t pairs = f.inv_freq.size();
  const double theta = f.inv_freq[pair], rest = f.inv_freq_rest[pair], turns = f.quarter_turns[pair];
  const double mid = f.quarter_turns[pairs + pair], low = f.quarter_turns[2 * pairs + pair];
  if (!(std::fabs(theta) <= 0x1p13)) {
    throw RangeError(text::concat("[RopeFrequencies] inv_freq: must be at most 2^13 radians per token, got ", theta));
  }
  const double product = turns * quarter;
  const double product_rest = std::fma(turns, quarter, -product) + (turns * quarter_rest + mid * quarter);
  const double off = (product - theta) + (product_rest - rest);
  // 2^-96: the roundings of the leftover, some 2^-53 · 2^-53 each, and what the third double adds.
  const bool same = std::fabs(off) <= 0x1p-96 * std::fabs(theta) && std::fabs(mid) <= 0x1p-52 * std::fabs(turns) &&
                    std::fabs(low) <= 0x1p-52 * std::fabs(mid);
  if (same) return;
  throw ShapeError(text::concat("[RopeFrequencies] quarter_turns: must be inv_freq + inv_freq_rest times 2/π, got ",
                                turns, " for ", theta, " of pair ", static_cast<Index>(pair)));
}

/// What multiplies cos and sin.
double factor_of(const RopeFrequencies& f) {
  const bool rounded = f.angles == Angles::as_float32;
  return rounded ? static_cast<double>(static_cast<float>(f.attention_factor)) : f.attention_factor;
}

}  // namespace

void check_frequencies(const RopeFrequencies& f) {
  const auto must = [](bool holds, const auto&... pieces) {
    if (!holds) throw ShapeError(text::concat("[RopeFrequencies] ", pieces...));
  };
  const auto finite = [](const char* name, double value) {
    if (!std::isfinite(value)) {
      throw RangeError(text::concat("[RopeFrequencies] ", name, ": must be finite, got ", value));
    }
  };
  must(f.rotary_dim >= 2 && f.rotary_dim % 2 == 0 && f.rotary_dim <= f.head_dim,
       "rotary_dim: must be even and from 2 to head_dim = ", f.head_dim, ", got ", f.rotary_dim);
  must(f.begin >= 0 && f.begin <= f.head_dim - f.rotary_dim,
       "begin: must be from 0 to head_dim - rotary_dim = ", f.head_dim - f.rotary_dim, ", got ", f.begin);
  const Pairing pairing = f.pairing;
  must(pairing == Pairing::interleaved || pairing == Pairing::half, "pairing: must be interleaved or half, got ",
       static_cast<Index>(pairing));
  must(f.angles == Angles::exact || f.angles == Angles::as_float32, "angles: must be exact or as_float32, got ",
       static_cast<Index>(f.angles));
  must(f.axes >= 1 && f.axes <= max_axes, "axes: must be from 1 to ", max_axes, ", got ", f.axes);
  const auto one_per_pair = [&](const char* name, Index size) {
    must(size == f.pairs(), name, ": must have one entry per pair, ", f.pairs(), ", got ", size);
  };
  one_per_pair("inv_freq", std::ssize(f.inv_freq));
  one_per_pair("inv_freq_rest", std::ssize(f.inv_freq_rest));
  one_per_pair("axis", std::ssize(f.axis));
  must(std::ssize(f.quarter_turns) == 3 * f.pairs(), "quarter_turns: must have three entries per pair, ", 3 * f.pairs(),
       ", got ", std::ssize(f.quarter_turns));
  Index in_blocks = 0;
  for (const Index count : f.blocks) {
    must(count >= 1 && count <= f.pairs() - in_blocks, "blocks: must be positive and add up to ", f.pairs(), ", got ",
         f.blocks);
    in_blocks += count;
  }
  must(f.blocks.empty() || in_blocks == f.pairs(), "blocks: must add up to ", f.pairs(), ", got ", f.blocks);
  for (const Index axis : f.axis) {
    must(axis >= 0 && axis < f.axes, "axis: must be from 0 to ", f.axes - 1, ", got ", axis);
  }
  for (const double theta : f.inv_freq) finite("inv_freq", theta);
  for (const double rest : f.inv_freq_rest) finite("inv_freq_rest", rest);
  for (const double turns : f.quarter_turns) finite("quarter_turns", turns);
  for (std::size_t pair = 0; pair < f.inv_freq.size(); ++pair) check_pair(f, pair);
  finite("attention_factor", factor_of(f));
  if (factor_of(f) == 0) {
    throw RangeError(text::concat("[RopeFrequencies] attention_factor: must not be 0, got ", factor_of(f)));
  }
}

namespace {

const RopeFrequencies& checked(const RopeFrequencies& frequencies) {
  check_frequencies(frequencies);
  return frequencies;
}

}  // namespace

PhaseFrequencies::PhaseFrequencies(const RopeFrequencies& from)
    : pairs(checked(from).pairs()),
      padded(padded_pairs(from.pairs())),
      axes(from.axes),
      angles(from.angles),
      attention_factor(factor_of(from)),
      quarter_turns(3 * padded),
      blocks(from.blocks) {
  for (Index part = 0; part < 3; ++part) {
    for (Index i = 0; i < padded; ++i) {
      double value = 0;
      if (i < pairs && angles == Angles::exact) {
        value = from.quarter_turns[static_cast<std::size_t>(part * pairs + i)];
      } else if (i < pairs && part == 0) {
        value = from.inv_freq[static_cast<std::size_t>(i)];
      }
      quarter_turns[part * padded + i] = value;
    }
  }
  if (axes == 1) return;
  axis32 = AlignedArray<float>(padded);
  axis64 = AlignedArray<double>(padded);
  for (Index i = 0; i < padded; ++i) {
    axis64[i] = i < pairs ? static_cast<double>(from.axis[static_cast<std::size_t>(i)]) : 0;
    axis32[i] = static_cast<float>(axis64[i]);
  }
}

namespace {

/// A table this long would not fit in memory or not be countable.
Index checked_length(const char* table, Index length, Index padded, std::size_t size) {
  if (length < 0 || length > max_position) {
    throw RangeError(text::concat("[", table, "] length: must be from 0 to 2^31, got ", length));
  }
  const Index bytes = 2 * padded * static_cast<Index>(size);
  if (bytes > 0 && length > (Index{1} << 48) / bytes) {
    throw RangeError(
        text::concat("[", table, "] length: must fit in memory, got ", length, " positions of ", bytes, " bytes"));
  }
  return length;
}

/// Phases at first … first + count − 1 to cos + i·stride and sin + i·stride, [padded] each; `one` [2·padded] is
/// scratch.
template <class T>
void fill_sequence(const PhaseFrequencies& f, const PhaseDecay& decay, Index first, Index count, T* cos, T* sin,
                   Index stride, double* one) {
  const PhaseKernels kernels = phase_kernels();
  if constexpr (std::is_same_v<T, float>) {
    if (!decay.any()) return kernels.sequence_f32(f, nullptr, first, count, {cos, sin, stride, f.padded, f.padded});
  }
  for (Index r = 0; r < count; ++r) {
    const double p = static_cast<double>(first + r);
    kernels.exact_phases(f, p, one, one + f.padded);
    if (decay.any()) decay.apply(p, one, one + f.padded);
    for (Index i = 0; i < f.padded; ++i) {
      cos[r * stride + i] = static_cast<T>(one[i] * f.attention_factor);
      sin[r * stride + i] = static_cast<T>(one[f.padded + i] * f.attention_factor);
    }
  }
}

}  // namespace

/// Builds the phases; a friend, so that the header shows none of it.
struct RopeTableAccess {
  template <class T>
  static std::unique_ptr<RopePhases<T>> build(const RopeFrequencies& from, const PhaseDecay& decay, Index length,
                                              TableMemory memory, const Executor& on) {
    auto phases = std::make_unique<RopePhases<T>>();
    phases->frequencies = PhaseFrequencies(from);
    check_numbers<T>(phases->frequencies.attention_factor, memory);
    phases->decay = decay;
    if (memory == TableMemory::full) {
      build_full<T>(*phases, length, on);
    } else if (from.angles == Angles::exact && !phases->decay.any() && std::is_same_v<T, float>) {
      build_compact<T>(*phases, length, on);
    }  // else phases are computed when they are needed: no memory at all
    return phases;
  }

  /// Throws RangeError unless cos and sin can be multiplied by the factor as T, and the memory is one of its kinds.
  template <class T>
  static void check_numbers(double factor, TableMemory memory) {
    const T stored = static_cast<T>(factor);
    if (!std::isfinite(stored) || stored == 0) {
      throw RangeError(text::concat("[RopeTable] attention_factor: must be finite and not 0 in ",
                                    std::is_same_v<T, float> ? "float" : "double", ", got ", factor));
    }
    if (memory == TableMemory::full || memory == TableMemory::compact) return;
    throw RangeError(text::concat("[RopeTable] memory: must be full or compact, got ", static_cast<Index>(memory)));
  }

  template <class T>
  static void build_full(RopePhases<T>& phases, Index length, const Executor& on) {
    const Index padded = phases.frequencies.padded;
    phases.full = AlignedArray<T>(length * 2 * padded);
    // About 4 MiB a task, in whole blocks of positions, so that each task may write past the caches.
    const Index wanted = (Index{4} << 20) / (2 * padded * static_cast<Index>(sizeof(T)));
    const Index chunk = workers_of(on) < 2 ? length : std::max<Index>(512, wanted / 32 * 32);
    const Index tasks = length == 0 ? 0 : (length + chunk - 1) / chunk;
    AlignedArray<double> scratch(tasks * 2 * padded);
    parallel(on, tasks, [&](Index task) {
      const Index first = task * chunk, count = std::min(chunk, length - first);
      T* cos = phases.full.data() + first * 2 * padded;
      fill_sequence<T>(phases.frequencies, phases.decay, first, count, cos, cos + padded, 2 * padded,
                       scratch.data() + task * 2 * padded);
    });
    phases.length = length;
  }

  /// Two short tables: 0 … fine_count−1, and the multiples of fine_count up to the length, as far as less than 1 MiB
  /// goes.
  template <class T>
  static void build_compact(RopePhases<T>& phases, Index length, const Executor&) {
    const PhaseFrequencies& f = phases.frequencies;
    const Index fine = compact_fine_count(f.padded);
    const Index coarse = std::min(fine - 1, (length + fine - 1) / fine);
    if (2 * fine * f.padded * 16 > (Index{1} << 20) || coarse == 0) return;
    phases.fine = AlignedArray<double>(fine * 2 * f.padded);
    phases.coarse = AlignedArray<double>(coarse * 2 * f.padded);
    const PhaseKernels kernels = phase_kernels();
    const auto put = [&](AlignedArray<double>& table, Index i, Index position) {
      double* cos = table.data() + i * 2 * f.padded;
      kernels.exact_phases(f, static_cast<double>(position), cos, cos + f.padded);
    };
    for (Index i = 0; i < fine; ++i) put(phases.fine, i, i);
    for (Index i = 0; i < coarse; ++i) put(phases.coarse, i, i * fine);
    phases.fine_count = fine;
    phases.coarse_count = coarse;
  }

  template <class T>
  static RopeTable<T> make(RopeFrequencies frequencies, PhaseDecay decay, Index length, TableMemory memory,
                           const Executor& on) {
    checked_length("XposTable", length, padded_pairs(frequencies.pairs()), sizeof(T));
    auto phases = build<T>(frequencies, std::move(decay), length, memory, on);
    return RopeTable<T>(std::move(frequencies), length, memory, std::move(phases));
  }
};

RopeFrequencies resolve_told(const char* function, const Rope& rope, Index length, const TableOptions& options) {
  if (options.seq_len == 0 && depends_on_length(rope.scaling)) {
    throw RangeError(text::concat("[", function, "] seq_len: must be given, as the frequencies of ",
                                  scaling_name(rope.scaling), " depend on how long the sequence is, got 0"));
  }
  return resolve(rope, options.seq_len != 0 ? options.seq_len : std::clamp<Index>(length, 0, max_position),
                 options.angles);
}

template <class T>
RopeTable<T> table_with_decay(RopeFrequencies frequencies, PhaseDecay decay, Index length, TableMemory memory,
                              const Executor& on) {
  return RopeTableAccess::make<T>(std::move(frequencies), std::move(decay), length, memory, on);
}

template <class T>
RopeTable<T>::RopeTable(RopeFrequencies frequencies, Index length, TableMemory memory, std::unique_ptr<Phases> phases)
    : frequencies_(std::move(frequencies)), length_(length), memory_(memory), phases_(std::move(phases)) {}

template <class T>
RopeTable<T>::RopeTable(RopeFrequencies frequencies, Index length, TableMemory memory, const Executor& on)
    : frequencies_(std::move(frequencies)), length_(length), memory_(memory) {
  check_frequencies(frequencies_);
  checked_length("RopeTable", length, padded_pairs(frequencies_.pairs()), sizeof(T));
  phases_ = RopeTableAccess::build<T>(frequencies_, {}, length, memory, on);
}

template <class T>
RopeTable<T>::RopeTable(const Rope& rope, Index length, const TableOptions& options, const Executor& on)
    : RopeTable(resolve_told("RopeTable", rope, length, options), length, options.memory, on) {}

template <class T>
RopeTable<T> RopeTable<T>::from_cos_sin(const Rope& rope, View<const T, 2> cos, View<const T, 2> sin) {
  // The numbers stand in the phases; frequencies of 0 are only there to carry the geometry.
  Rope shape = rope;
  shape.log_factors.clear();
  const Index rotary_dim = rope.turned();
  shape.scaling =
      ExplicitFrequencies{std::vector<double>(static_cast<std::size_t>(std::max<Index>(0, rotary_dim / 2)))};
  RopeFrequencies frequencies = text::in_the_name_of("from_cos_sin", [&] { return resolve(shape); });
  const Index pairs = frequencies.pairs(), length = cos.shape[0];
  if (cos.shape[1] != pairs) {
    throw ShapeError(
        text::concat("[from_cos_sin] cos: must have shape [length, pairs] with ", pairs, " pairs, got ", cos.shape));
  }
  if (sin.shape != cos.shape) {
    throw ShapeError(text::concat("[from_cos_sin] sin: must have the shape of cos, ", cos.shape, ", got ", sin.shape));
  }
  check_tensor("from_cos_sin", "cos", cos);
  check_tensor("from_cos_sin", "sin", sin);
  auto phases = std::make_unique<Phases>();
  phases->frequencies = PhaseFrequencies(frequencies);
  const Index padded = phases->frequencies.padded;
  phases->full = AlignedArray<T>(checked_length("from_cos_sin", length, padded, sizeof(T)) * 2 * padded);
  // A NaN's payload would take part in the rounding to bfloat16; the plain one does not.
  const auto plain = [](T x) { return std::isnan(x) ? std::numeric_limits<T>::quiet_NaN() : x; };
  for (Index p = 0; p < length; ++p) {
    for (Index i = 0; i < padded; ++i) {
      phases->full[p * 2 * padded + i] = i < pairs ? plain(cos(p, i)) : T(1);
      phases->full[p * 2 * padded + padded + i] = i < pairs ? plain(sin(p, i)) : T(0);
    }
  }
  phases->length = length;
  phases->given = true;
  return RopeTable(std::move(frequencies), length, TableMemory::full, std::move(phases));
}

template <class T>
std::size_t RopeTable<T>::bytes() const {
  const Phases& of = phases();
  return static_cast<std::size_t>(of.full.size()) * sizeof(T) +
         static_cast<std::size_t>(of.fine.size() + of.coarse.size()) * sizeof(double);
}

namespace {

template <class T>
View<const T, 2> part_of_table(const RopeTable<T>& table, const char* name, Index part) {
  if (table.memory() != TableMemory::full) {
    throw ShapeError(
        text::concat("[RopeTable::", name, "] table: must be a full one (TableMemory::full), got a compact one"));
  }
  const Index padded = table.phases().frequencies.padded;
  return {table.phases().full.data() + part * padded, {table.length(), table.frequencies().pairs()}, {2 * padded, 1}};
}

}  // namespace

template <class T>
View<const T, 2> RopeTable<T>::cos() const {
  return part_of_table(*this, "cos", 0);
}

template <class T>
View<const T, 2> RopeTable<T>::sin() const {
  return part_of_table(*this, "sin", 1);
}

template <class T>
void RopeTable<T>::refuse_moved(const char* function) {
  throw ShapeError(text::concat("[", function, "] table: must have its numbers, got an object that was moved from"));
}
template <class T>
RopeTable<T>::RopeTable(RopeTable&&) noexcept = default;
template <class T>
RopeTable<T>& RopeTable<T>::operator=(RopeTable&&) noexcept = default;
template <class T>
RopeTable<T>::~RopeTable() = default;
template <class T>
RopeTable<T>::RopeTable(const RopeTable& other)
    : frequencies_(other.frequencies_),
      length_(other.length_),
      memory_(other.memory_),
      phases_(std::make_unique<Phases>(other.phases())) {}
template <class T>
RopeTable<T>& RopeTable<T>::operator=(const RopeTable& other) {
  return *this = RopeTable(other);
}

template <class T>
void fill(const RopeFrequencies& frequencies, const Positions& positions, View<T, 2> cos, View<T, 2> sin,
          const Executor& on) {
  const Index time = cos.shape[0], pairs = frequencies.pairs();
  if (cos.shape[1] != pairs) {
    throw ShapeError(text::concat("[fill] cos: must have shape [time, pairs] with ", pairs, " pairs, got ", cos.shape));
  }
  if (sin.shape != cos.shape) {
    throw ShapeError(text::concat("[fill] sin: must have the shape of cos, ", cos.shape, ", got ", sin.shape));
  }
  check_output("fill", "cos", cos);
  check_output("fill", "sin", sin);
  const PhaseFrequencies f(frequencies);
  positions.check("fill", "positions", f.axes, 1, time);
  CallMemory memory("fill");
  memory.reads_positions("positions", positions).writes("cos", cos).writes("sin", sin).check();
  const PhaseKernels kernels = phase_kernels();
  const bool plain = cos.stride[1] == 1 && sin.stride == cos.stride;
  const Index workers = workers_of(on);
  const Index chunk = std::max<Index>(64, workers < 2 ? time : (time / (4 * workers) + 31) / 32 * 32);
  const Index tasks = time == 0 ? 0 : (time + chunk - 1) / chunk;
  AlignedArray<double> scratch(tasks * 2 * f.padded * (f.axes + 1));
  parallel(on, tasks, [&](Index task) {
    const Index first = task * chunk, last = std::min(first + chunk, time);
    if constexpr (std::is_same_v<T, float>) {
      if (plain && positions.is_offset()) {
        return kernels.sequence_f32(f, nullptr, positions.first() + first, last - first,
                                    {.cos = &cos(first, 0),
                                     .sin = &sin(first, 0),
                                     .stride = cos.stride[0],
                                     .cosines = pairs,
                                     .sines = pairs,
                                     .rows = time});
      }
    }
    double* one = scratch.data() + task * 2 * f.padded * (f.axes + 1);
    for (Index t = first; t < last; ++t) {
      const Index axes = std::min(f.axes, positions.axes());
      for (Index axis = 0; axis < axes; ++axis) {
        double* to = one + axis * 2 * f.padded;
        kernels.exact_phases(f, positions.real(axis, 0, t), to, to + f.padded);
      }
      for (Index i = 0; i < pairs; ++i) {
        const Index axis = axes == 1 ? 0 : frequencies.axis[static_cast<std::size_t>(i)];
        const double* from = one + axis * 2 * f.padded + i;
        using C = Compute<T>;
        cos(t, i) = static_cast<T>(static_cast<C>(from[0] * f.attention_factor));
        sin(t, i) = static_cast<T>(static_cast<C>(from[f.padded] * f.attention_factor));
      }
    }
  });
}

template class RopeTable<float>;
template class RopeTable<double>;
template RopeTable<float> table_with_decay(RopeFrequencies, PhaseDecay, Index, TableMemory, const Executor&);
template RopeTable<double> table_with_decay(RopeFrequencies, PhaseDecay, Index, TableMemory, const Executor&);
template void fill(const RopeFrequencies&, const Positions&, View<double, 2>, View<double, 2>, const Executor&);
template void fill(const RopeFrequencies&, const Positions&, View<float, 2>, View<float, 2>, const Executor&);
template void fill(const RopeFrequencies&, const Positions&, View<Bfloat16, 2>, View<Bfloat16, 2>, const Executor&);
template void fill(const RopeFrequencies&, const Positions&, View<Float16, 2>, View<Float16, 2>, const Executor&);

}  // namespace bearing
