#pragma once

#include <bearing/figures.hpp>

// What each kind of picture is: one file each, named as the kind.

namespace bearing::inspect {

FigureKind heatmap_kind();
FigureKind curves_kind();
FigureKind similarity_kind();
FigureKind decay_kind();
FigureKind walk_kind();
FigureKind hands_kind();
FigureKind wavelengths_kind();
FigureKind buckets_kind();
FigureKind offset_kind();
FigureKind correlations_kind();
FigureKind masks_kind();
FigureKind feature_kind();

}  // namespace bearing::inspect
