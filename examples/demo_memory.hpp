#pragma once

#include <bearing/executor.hpp>
#include <cstddef>
#include <memory>

// Memory for the demo, and how fast this machine can change it in place.

namespace demo {

struct Release {
  void operator()(void* memory) const noexcept;
};

/// Zeroed bytes on 2 MiB pages where the system has them: what an engine would keep its activations on.
using Memory = std::unique_ptr<std::byte, Release>;
Memory allocate(std::size_t bytes);

/// Reads and writes every byte once, in place, with a prefetch 4 KiB ahead: the most that anything can do to this
/// memory in this time. What is written is what was read.
void touch(std::byte* memory, std::size_t bytes, const bearing::Executor& on);

}  // namespace demo
