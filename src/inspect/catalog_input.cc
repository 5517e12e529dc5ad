#include "inspect/make.hpp"

namespace bearing::inspect {

void list_inputs(std::vector<Entry>&) {}

}  // namespace bearing::inspect
