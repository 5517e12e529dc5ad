#pragma once

#include "encoding_parameters.hpp"

// Parameters that are computed for the call, from others that were learned.

namespace bearing::tool {

/// What the call computes; null where nothing is, or where the text gives the parameter itself.
const ComputedInfo* computed_of(const Said& said);

/// The parameter, from files that were asked for; `spec` becomes that of the encoding. After the backward the files'
/// gradients follow from the parameter's.
template <class A>
ParameterMemory compute(Said& said, const CallShape& call, const ComputedInfo& info, ParameterReader<A>& read,
                        Record& spec, CallEncodings<A>& into);

}  // namespace bearing::tool
