#pragma once

#include <bearing/say.hpp>
#include <string>
#include <vector>

namespace bearing::say {

/// What "@FILE", "@FILE#3", "@FILE#input", "@FILE#encoder.input" or "@FILE#x.input" says, the @ left out; keys may
/// follow after a colon.
std::vector<Said> said_by_model(const std::string& text);

}  // namespace bearing::say
