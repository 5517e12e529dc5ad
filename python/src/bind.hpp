#pragma once

#include <nanobind/nanobind.h>

#include <bearing/executor.hpp>
#include <bearing/figures.hpp>

#include "numbers.hpp"
#include "unlocked.hpp"

// The parts of the module; each source binds one subject.

namespace bearing::python {

namespace nb = nanobind;

void bind_errors(nb::module_& m);
void bind_target(nb::module_& m);
void bind_described(nb::module_& m);
void bind_rope(nb::module_& m);
void bind_rope_tables(nb::module_& m);
void bind_rotations(nb::module_& m);
void bind_row_calls(nb::module_& m);
void bind_scores(nb::module_& m);
void bind_attention(nb::module_& m);
void bind_linear_attention(nb::module_& m);
void bind_io(nb::module_& m);
void bind_files(nb::module_& m);
void bind_gguf(nb::module_& m);
void bind_dialects(nb::module_& m);
void bind_jax(nb::module_& m);  // only where JAX's headers were there
void bind_inspect(nb::module_& m);
void bind_choose(nb::module_& m);
void bind_figures(nb::module_& m);

/// A picture in words: its kind, encodings and options by name; None where it has no kind.
nb::object picture_object(const inspect::Picture& picture);

/// The `threads` argument of every function: how many threads it may use, 1 by default, 0: all that the process has.
Executor executor_of(Index threads, const char* function);

}  // namespace bearing::python
