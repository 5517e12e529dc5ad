#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.hpp"

namespace bearing::tool {

/// The command that the first word names; throws UsageError if there is none.
const Command& command_named(const std::vector<Command>& all, const std::string& word);

/// Fills what a command's options point to from the words after its name. Gives the help if that is asked for instead.
/// Throws UsageError: for a value that is empty or not one of the option's words, for two outputs that are one file,
/// and for what any parser would refuse.
std::optional<std::string> parse(const Command& command, const std::vector<std::string>& words);

/// The help of all commands, or of one.
std::string help_text(const std::vector<Command>& all);
std::string help_text(const Command& command);

/// Throws UsageError if two of the files, each with what names it on the command line, are one.
void check_different(const std::vector<std::pair<std::string, std::string>>& outputs);

/// A library's error in the words of the command line: "[rotate] q_positions: …" becomes "--q-positions: …".
std::string in_options_words(const Command& command, const std::string& error);

}  // namespace bearing::tool
