#pragma once

#include <bearing/figures.hpp>

// What each kind of picture is: one file each, named as the kind.

namespace bearing::inspect {

FigureKind curves_kind();

}  // namespace bearing::inspect
