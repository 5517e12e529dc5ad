#include "choose_questions.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bearing/choose.hpp>

#include "arguments.hpp"
#include "errors.hpp"
#include "signals.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

/// The next line of standard input.
std::string read_line() {
  std::string line;
  for (char c = 0;;) {
    const ssize_t n = ::read(STDIN_FILENO, &c, 1);
    if (n < 0) stop_if_interrupted();
    if (n <= 0) {
      note_piece("\n");
      throw UsageError("choose: the answers ended before the questions; nothing is chosen");
    }
    if (c == '\n') break;
    if (c != '\r') line += c;
  }
  const std::size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t");
  return first == line.npos ? "" : line.substr(first, last - first + 1);
}

/// One question, until check(answer) throws no UsageError; an empty answer is the default.
template <class Check>
std::string ask(const std::string& question, const std::string& otherwise, const Check& check) {
  for (;;) {
    note_piece(fmt::format("{} [{}] ", question, otherwise));
    std::string answer = read_line();
    if (answer.empty()) answer = otherwise;
    try {
      check(answer);
      return answer;
    } catch (const UsageError& error) {
      note_line(printable(fmt::format("  {}", error.what())));
    }
  }
}

std::string ask_word(const std::string& question, const std::vector<inspect::Answer>& answers,
                     const std::string& otherwise) {
  std::vector<std::string> words;
  for (const inspect::Answer& one : answers) {
    note_line(fmt::format("  {:<11} {}", one.word, one.text));
    words.push_back(one.word);
  }
  return ask(question, otherwise, [&](const std::string& answer) {
    if (std::find(words.begin(), words.end(), answer) != words.end()) return;
    throw UsageError(fmt::format("must be {}{}", either(words), suggestion(answer, words)));
  });
}

std::string ask_length(const std::string& question, const std::string& otherwise) {
  return ask(question, otherwise,
             [](const std::string& answer) { parse_index("a length", answer, 2, Index{1} << 30); });
}

bool ask_yes(const std::string& question, const char* otherwise) {
  return ask(question, otherwise, [](const std::string& answer) {
           if (answer != "yes" && answer != "no") throw UsageError("must be yes or no");
         }) == "yes";
}

}  // namespace

bool can_ask() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1; }

ChooseWords ask_words() {
  ChooseWords words;
  note_line("A few questions; Enter takes the answer in brackets, Ctrl-C leaves.\n");
  words.task = ask_word("What is it for?", inspect::task_answers(), "generate");
  const bool image = words.task == "images";
  words.trained = ask_length(image ? "How many patches is it trained on?" : "How many tokens is it trained on?",
                             image ? "256" : "2048");
  words.wanted = ask_length("How many are wanted in the end?", words.trained);
  constexpr Index most = Index{1} << 30;
  if (parse_index("", words.wanted, 2, most) > parse_index("", words.trained, 2, most)) {
    words.no_tuning = !ask_yes("Can it be trained a little at that length?", "yes");
  }
  words.kernel = ask_word("Which kernel of attention is at hand?", inspect::kernel_answers(), "any");
  words.no_learned = !ask_yes("May the encoding have learned numbers?", "yes");
  note_line("");
  return words;
}

}  // namespace bearing::tool
