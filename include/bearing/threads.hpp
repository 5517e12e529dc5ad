#pragma once

#include <bearing/executor.hpp>
#include <bearing/export.hpp>

namespace bearing {

/// An executor on oneTBB's pool that uses up to `workers` threads, the caller's included. Link `bearing::threads`.
///
/// An executor is the last argument of every call that takes one:
///
///     const bearing::Executor on = bearing::threads(8);
///     bearing::rotate(table, q, k, {}, on);
///     bearing::attention<float>({q, k, v}, out, lse, with(rope), {.mask = bearing::Mask::causal}, on);
///
/// Calls that several threads make at the same time do not wait for each other: each has up to `workers` threads of the
/// pool, as far as there are idle ones, and always its own. With as many callers of one width at work as oneTBB has
/// threads, the next one works alone.
///
/// Its threads work in the floating-point mode of the thread that calls (rounding, flushing of denormals, traps), so
/// that results have the same bits for any number of threads in any mode. After fork() the parent's threads are gone
/// and its locks may be held: a child whose parent had used an executor runs all tasks on the calling thread.
///
/// A shared library that has run tasks so stays loaded after dlclose(), and oneTBB with it: the pool's threads are
/// there.
///
/// workers = 0 takes as many as the process may use: the CPUs that the calling thread may run on, and no more than the
/// quota of its control group gives time for, as a container's limit was at the first such call. Throws RangeError for
/// a negative number.
BEARING_EXPORT Executor threads(Index workers = 0);

}  // namespace bearing
