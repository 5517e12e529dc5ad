#pragma once

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <vector>

namespace bearing::test {

/// Numbers that end where memory ends: whoever reads past them crashes, whatever the sanitizers see.
template <class A>
class AtTheEdge {
 public:
  explicit AtTheEdge(const std::vector<A>& numbers) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), bytes = numbers.size() * sizeof(A);
    size_ = (bytes + page - 1) / page * page + page;
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    char* edge = static_cast<char*>(memory_) + size_ - page;
    if (mprotect(edge, page, PROT_NONE) != 0) std::abort();
    data_ = reinterpret_cast<A*>(edge - bytes);
    std::copy(numbers.begin(), numbers.end(), data_);
  }
  ~AtTheEdge() { munmap(memory_, size_); }
  AtTheEdge(const AtTheEdge&) = delete;
  AtTheEdge& operator=(const AtTheEdge&) = delete;

  A* data() { return data_; }

 private:
  std::size_t size_ = 0;
  void* memory_ = nullptr;
  A* data_ = nullptr;
};

}  // namespace bearing::test
