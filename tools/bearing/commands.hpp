#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <stdexcept>
#include <string>

// One file per subcommand. Each adds its options to the app and returns what to do once they are parsed.

namespace bearing::tool {

/// A wrong command line: exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Something that was asked to hold does not: exit status 1.
struct CheckFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Action = std::function<void()>;

Action add_config_command(CLI::App& app);
Action add_rotate_command(CLI::App& app);
Action add_attend_command(CLI::App& app);
Action add_list_command(CLI::App& app);
Action add_check_command(CLI::App& app);
Action add_compare_command(CLI::App& app);
Action add_table_command(CLI::App& app);
Action add_completion_command(CLI::App& app);

/// What --version prints.
std::string version_text();

}  // namespace bearing::tool
