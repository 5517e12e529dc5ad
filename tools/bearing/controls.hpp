#pragma once

#include "utf8.hpp"

namespace bearing::tool {

using utf8::is_control;

}  // namespace bearing::tool
