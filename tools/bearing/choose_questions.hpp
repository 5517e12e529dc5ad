#pragma once

#include <string>

namespace bearing::tool {

/// What `choose` is told, as words: the values of its options, or what was answered. Empty: left open.
struct ChooseWords {
  std::string task, trained, wanted, axes, kernel, memory, from, heads, dim, seed;
  bool causal = false, no_causal = false, no_learned = false, no_tuning = false;

  bool none() const {
    return task.empty() && trained.empty() && wanted.empty() && axes.empty() && kernel.empty() && memory.empty() &&
           from.empty() && heads.empty() && dim.empty() && seed.empty() && !causal && !no_causal && !no_learned &&
           !no_tuning;
  }
};

/// Whether somebody can be asked: standard input and standard error are a terminal.
bool can_ask();

/// Asks one short question at a time, each with a default. Throws UsageError where the answers end too early.
ChooseWords ask_words();

}  // namespace bearing::tool
