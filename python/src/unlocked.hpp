#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

// Python's lock, let go while the library works.

namespace bearing::python {

/// Lets Python's lock go for as long as it lives.
///
/// A thread that comes back when the interpreter has ended can have the lock no more: CPython before 3.14 ends such a
/// thread there and then by unwinding its stack, which no C++ function that is noexcept survives. It is kept waiting
/// instead, as 3.14 does; the process ends without it.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) ::pause();
    }
  }

 private:
  PyThreadState* state_;
};

}  // namespace bearing::python
