#pragma once

#include <string>
#include <vector>

#include "command.hpp"

// One file per command: its options, and what it does with them.

namespace bearing::tool {

Command config_command();
Command rotate_command();
Command attend_command();
Command list_command();
Command check_command();
Command compare_command();
Command choose_command();
Command table_command();
Command plot_command();
Command report_command();
Command myths_command();
/// Scripts for shells, made of all commands.
Command completion_command(const std::vector<Command>& all);
Command help_command(const std::vector<Command>& all);
Command version_command();

/// What --version prints.
std::string version_text();

}  // namespace bearing::tool
