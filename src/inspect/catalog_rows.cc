#include "inspect/make.hpp"

namespace bearing::inspect {

void list_rows(std::vector<Entry>&) {}

}  // namespace bearing::inspect
