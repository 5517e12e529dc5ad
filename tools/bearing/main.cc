#include <bearing/error.hpp>
#include <exception>
#include <new>

#include "command_line.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "signals.hpp"
#include "terminal.hpp"

// Exit status: 0 done, 1 a check failed, 2 a wrong command line, 3 a file that cannot be read, understood or written.

namespace bearing::tool {
namespace {

constexpr int check_failed = 1, usage_error = 2, unfit_file = 3;

class Tool {
 public:
  Tool() {
    commands_.reserve(14);  // completion and help refer to all
    for (Command (*make)() :
         {config_command, rotate_command, attend_command, list_command, check_command, compare_command, choose_command,
          table_command, plot_command, report_command, myths_command}) {
      commands_.push_back(make());
    }
    commands_.push_back(completion_command(commands_));
    commands_.push_back(help_command(commands_));
    commands_.push_back(version_command());
  }

  int run(const std::vector<std::string>& words) {
    try {
      act(words);
      return 0;
    } catch (const UsageError& error) {
      return complain(error.what(), usage_error);
    } catch (const CheckFailed& error) {
      return complain(error.what(), check_failed);
    } catch (const std::bad_alloc&) {
      return complain("not enough memory", unfit_file);
    } catch (const std::exception& error) {
      return complain(error.what(), unfit_file);
    }
  }

 private:
  void act(const std::vector<std::string>& words) {
    const std::string first = words.empty() ? "" : words.front();
    if (first == "-h" || first == "--help") return print(help_text(commands_));
    if (first == "-V" || first == "--version") return print(version_text());
    command_ = &command_named(commands_, first);
    const std::optional<std::string> help = parse(*command_, {words.begin() + 1, words.end()});
    if (help) return print(*help);
    command_->run();
  }

  int complain(const std::string& text, int status) const {
    note(printable(command_ == nullptr ? text : in_options_words(*command_, text)));
    if (status == usage_error) {
      note_line("See 'bearing " + (command_ == nullptr ? "" : command_->name + " ") + "--help'.");
    }
    return status;
  }

  std::vector<Command> commands_;
  const Command* command_ = nullptr;  ///< the one that is asked for, once that is known
};

}  // namespace
}  // namespace bearing::tool

int main(int argc, char** argv) {
  using namespace bearing::tool;
  open_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // told apart by errno, after what is half written is gone
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the limit is reported like a full disk
  try {
    return Tool().run({argv + 1, argv + argc});
  } catch (const Interrupted& interrupted) {
    die_of(interrupted.signal);
  }
}
