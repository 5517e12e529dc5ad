#pragma once

#include <bearing/figures.hpp>

// What each kind of picture is: one file each, named as the kind.

namespace bearing::inspect {

FigureKind curves_kind();
FigureKind walk_kind();
FigureKind hands_kind();
FigureKind wavelengths_kind();
FigureKind offset_kind();
FigureKind correlations_kind();
FigureKind masks_kind();

}  // namespace bearing::inspect
