#include "inspect/make.hpp"

namespace bearing::inspect {

void list_terms(std::vector<Entry>&) {}

}  // namespace bearing::inspect
