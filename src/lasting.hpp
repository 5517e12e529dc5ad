#pragma once

#include <utility>

namespace bearing {

/// A list, or what else is made once, that is never destroyed: a thread may still read it while the process ends.
template <class T>
const T& lasting(T made) {
  return *new const T(std::move(made));
}

}  // namespace bearing
