#pragma once

#include <bearing/attention.hpp>

#include "attention/softmax/attention_call.hpp"

// A few queries against a long cache: there, reading keys and values is all the work. All rows that share a kv head
// read them together, once, where they lie; keys are cut into slices for the workers, whose results are merged.

namespace bearing {

/// Whether decode() serves the call: by its shapes and terms alone, never by the executor.
template <class A>
bool decodes(const AttentionCall<A>& call);

/// attention() of such a call, checked and not empty. Throws std::bad_alloc before anything is written.
template <class A>
void decode(const AttentionCall<A>& call, const ResultRows<A>& out, View<A, 3> lse, const Executor& on);

}  // namespace bearing
