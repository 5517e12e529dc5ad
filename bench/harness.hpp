#pragma once

#include <bearing/executor.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

// One program measures our cases, the machine's limits and, if asked, our peers, in random order, each on numbers of
// its own. A case is timed in turns with what it is compared with, a fraction of a millisecond or one pass each, so
// that whatever else the machine does at the moment slows all sides alike; report.py reads the ratios.

namespace bearing::bench {

/// Something that a case is compared with: cases whose names match the pattern (a shell glob), the fastest of which
/// counts, and the least share of its speed that is demanded (0: for information).
struct Bar {
  std::string pattern;
  double demand = 0;
  double times = 1;  ///< how many of its steps are the work of one step of the case
};

struct Case {
  std::string name;   ///< what/dtype/pairing/where/size, without the number of threads
  Index threads = 1;  ///< 1: pinned to one core
  std::vector<Bar> bars = {};
  double at_most_us = 0;  ///< demanded in absolute time; 0: nothing
  bool peer = false;      ///< not ours; its bar is our case that does the same, and the demand our lead
  int turns = 0;          ///< for long steps: so many turns and no repetitions; 0: as the program's options say
  bool alone = true;      ///< false: it runs only beside those that name it
  /// Fills the buffers and returns the step that is timed.
  std::function<std::function<void()>()> prepare;
};

/// Cases that have turns of their own, and are registered from now on, take three fifths of them.
void be_quick();

/// Once a minute from now on, the case that was measured last and how many were, of about so many, on a descriptor.
void say_progress(int descriptor, int of);

/// Registers a case as the benchmark "name/threads".
void add(Case c);

/// The middle of them by size; of an even number the mean of the two in the middle, so that it leans to no side.
double median(std::vector<double> values);
inline constexpr std::size_t least_turns = 5;  ///< of a case that has no number of turns of its own, in a repetition

/// Serial for 1, else bearing::threads(n), made once.
const Executor& executor(Index threads);

/// The pattern of a limit's benchmarks for so many bytes; registers them when first asked for. LIMIT, NT copy and
/// reading are four each, one for each walk through memory.
std::string limit(std::size_t bytes, Index threads);       ///< LIMIT: read, modify, write in place
std::string plain_copy(std::size_t bytes, Index threads);  ///< std::memcpy of as many bytes
std::string nt_copy(std::size_t bytes, Index threads);
std::string nt_write(std::size_t bytes, Index threads);
std::string read_limit(std::size_t bytes, Index threads);

/// So many multiply-adds of float or double, in registers on the target's vectors: a burst of some milliseconds stands
/// for all of them.
template <class T>
Bar fma_limit(double fmas, Index threads, double demand = 0);

/// "64MiB", "16KiB".
std::string size_text(std::size_t bytes);

void add_rotation_cases();
void add_decode_cases();
void add_axes_cases();
void add_input_cases();
void add_table_cases();
void add_score_cases();
void add_relation_cases();
void add_attention_cases(bool full);  ///< full: the longest too
void add_attention_data_cases();
void add_attention_backward_cases();
void add_linear_attention_cases();

}  // namespace bearing::bench
