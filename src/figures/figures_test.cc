#include <gtest/gtest.h>
#include <bearing/error.hpp>
#include <bearing/figures.hpp>

namespace bearing::inspect {
namespace {

Subject subject(const char* name) { return {name, *find(name)}; }

TEST(Figures, RefuseWhatAKindDoesNotTake) {
  const std::vector<Subject> one{subject("rope")};
  EXPECT_THROW((void)figure("portrait", one), RangeError);
  EXPECT_THROW((void)figure("curves", {}), ShapeError);
  EXPECT_THROW((void)figure("curves", one, {.window = 4}), RangeError);
}

}  // namespace
}  // namespace bearing::inspect
