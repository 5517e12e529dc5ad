#pragma once

#include "simd/target.hpp"

// From a function template that a header declares to its versions for every instruction set, which a source defines
// under the same name and parameters in HWY_NAMESPACE. Behind HWY_ONCE, in the header's namespace, one line a function:
//
//     BEARING_KERNEL(void, pack, (Index n, const A* from, A* to), (n, from, to))
//
// defines pack<float> and pack<double>, which call the version for the target in force.

namespace bearing::simd {

/// The version for the target in force. A table has Highway's order of targets.
template <class Function>
Function* version_in_force(Function* const (&table)[HWY_MAX_DYNAMIC_TARGETS + 2]) {
  return table[chosen().GetIndex()];
}
template <class Function>
Function* version_in_force(Function* const (&table)[1]) {
  return table[0];
}

}  // namespace bearing::simd

#if HWY_IDE || ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0)
#define BEARING_VERSIONS(NAME) &HWY_STATIC_DISPATCH(NAME)
#else
#define BEARING_VERSIONS(NAME) nullptr, HWY_CHOOSE_TARGET_LIST(NAME), HWY_CHOOSE_FALLBACK(NAME)
#endif

// `here` is what makes the compiler emit the function: its table is instantiated by name, and the function with it.
#define BEARING_KERNEL_FOR_ANY(TYPE, RESULT, NAME, PARAMETERS, ARGUMENTS)                                    \
  template <class TYPE>                                                                                      \
  struct NAME##_versions {                                                                                   \
    static constexpr decltype(&HWY_STATIC_DISPATCH(NAME) < TYPE >) table[] = {BEARING_VERSIONS(NAME<TYPE>)}; \
    static constexpr auto here = &NAME<TYPE>;                                                                \
  };                                                                                                         \
  template <class TYPE>                                                                                      \
  RESULT NAME PARAMETERS {                                                                                   \
    return simd::version_in_force(NAME##_versions<TYPE>::table) ARGUMENTS;                                   \
  }

/// For A float and double.
#define BEARING_KERNEL(RESULT, NAME, PARAMETERS, ARGUMENTS)      \
  BEARING_KERNEL_FOR_ANY(A, RESULT, NAME, PARAMETERS, ARGUMENTS) \
  template struct NAME##_versions<float>;                        \
  template struct NAME##_versions<double>;

/// For T double, float, Bfloat16 and Float16.
#define BEARING_STORED_KERNEL(RESULT, NAME, PARAMETERS, ARGUMENTS) \
  BEARING_KERNEL_FOR_ANY(T, RESULT, NAME, PARAMETERS, ARGUMENTS)   \
  template struct NAME##_versions<double>;                         \
  template struct NAME##_versions<float>;                          \
  template struct NAME##_versions<Bfloat16>;                       \
  template struct NAME##_versions<Float16>;
