// with() refers to its encodings: a temporary would be gone before the call.
#include <bearing/encodings/alibi.hpp>
#include <bearing/scores.hpp>

void scores(bearing::View<float, 4> s) {
  const bearing::AlibiBias<float> named(bearing::Alibi::published(8));
#ifdef BEARING_WRONG
  bearing::add_scores(bearing::with(bearing::AlibiBias<float>(bearing::Alibi::published(8))), {}, s);
#else
  bearing::add_scores(bearing::with(named), {}, s);
#endif
}
