#include <fmt/format.h>

#include <algorithm>
#include <bearing/choose.hpp>
#include <bearing/io.hpp>
#include <bearing/say.hpp>

#include "array_files.hpp"
#include "choose_questions.hpp"
#include "choose_report.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "inspect_options.hpp"
#include "outputs.hpp"
#include "progress.hpp"

namespace bearing::tool {
namespace {

struct ChooseOptions {
  ChooseWords words;
  bool json = false;
  std::string out, threads = "1";
};

std::vector<std::string> words_of(const std::vector<inspect::Answer>& answers) {
  std::vector<std::string> words;
  words.reserve(answers.size());
  for (const inspect::Answer& one : answers) words.push_back(one.word);
  return words;
}

/// "generate (text, token by token: a decoder)", a line each.
std::string list_of(const std::vector<inspect::Answer>& answers) {
  std::string out;
  for (const inspect::Answer& one : answers) out += fmt::format("\n{}: {}", one.word, one.text);
  return out;
}

template <class Enum>
Enum chosen(const std::vector<inspect::Answer>& answers, const std::string& word) {
  const auto found = std::find_if(answers.begin(), answers.end(), [&](const auto& one) { return one.word == word; });
  return static_cast<Enum>(found - answers.begin());
}

inspect::Situation situation_of(const ChooseWords& words) {
  inspect::Situation s{.assumed = true, .models = [](const std::string& encoding) { return model_types_of(encoding); }};
  const auto number = [](const char* option, const std::string& text, Index least, Index most, Index& to) {
    if (!text.empty()) to = parse_index(option, text, least, most);
  };
  if (!words.from.empty()) {
    inspect::take_model(s,
                        with_library_errors("choose", [&] { return bearing::subject_of(say_encoding(words.from)); }));
  }
  if (!words.task.empty()) s.task = chosen<inspect::Task>(inspect::task_answers(), words.task);
  if (!words.kernel.empty()) s.kernel = chosen<inspect::AttentionKernel>(inspect::kernel_answers(), words.kernel);
  if (words.causal && words.no_causal) throw UsageError("--causal and --no-causal exclude each other");
  if (words.causal || words.no_causal) s.causal = words.causal;
  constexpr Index longest = Index{1} << 30;
  number("--trained", words.trained, 2, longest, s.trained);
  if (!words.trained.empty()) s.assumed = false;
  number("--wanted", words.wanted, 2, longest, s.wanted);
  number("--axes", words.axes, 1, 2, s.axes);
  number("--memory", words.memory, 1, Index{1} << 50, s.memory);
  number("--heads", words.heads, 1, largest_example.heads, s.heads);
  number("--dim", words.dim, 1, 1024, s.dim);
  Index seed = 1;
  number("--seed", words.seed, 0, Index{1} << 62, seed);
  s.seed = static_cast<std::uint64_t>(seed);
  s.learned = !words.no_learned, s.tuning = !words.no_tuning;
  return s;
}

void choose_encoding(const ChooseOptions& options) {
  const bool asks = options.words.none();
  if (asks && !can_ask()) {
    throw UsageError("choose: say --task, --trained, --wanted, --kernel or --from: there is no terminal to ask on");
  }
  const ChooseWords words = asks ? ask_words() : options.words;
  const Executor on = executor_of(options.threads);
  const inspect::Situation situation = situation_of(words);
  const inspect::Advice advice = with_library_errors("choose", [&] {
    Progress progress;
    progress.show("choose: measuring");
    return inspect::choose(situation, on);
  });
  deliver(options.out, options.json ? to_json(advice) : to_text(advice, output_style(options.out)));
}

void add_options(Command& command, ChooseOptions& options) {
  ChooseWords& words = options.words;
  command.word("--task", words.task, "TASK", words_of(inspect::task_answers()),
               "What the model is for (default: what its encoding\nis for, where it says; else generate)");
  command.text("--trained", words.trained, "N",
               "Tokens, or patches, that it is trained on\n(default 2048, or the model's)");
  command.text("--wanted", words.wanted, "N", "The longest that it is to serve (default: as\ntrained)");
  command.flag("--no-tuning", words.no_tuning, "It cannot be trained at the wanted length");
  command.flag("--causal", words.causal, "A token sees earlier ones only");
  command.flag("--no-causal", words.no_causal, "It sees all (default: by the task)");
  command.text("--axes", words.axes, "N", "Coordinates of a position, 1 or 2 (default: the\nmodel's, or by the task)");
  command.word("--kernel", words.kernel, "KERNEL", words_of(inspect::kernel_answers()),
               "What attention is computed by (default any)");
  command.flag("--no-learned", words.no_learned, "The encoding may learn nothing");
  command.text("--memory", words.memory, "BYTES", "Most bytes that it may hold, in float32");
  command.options.push_back(
      {"--from", "ENCODING", "A model at hand: its encoding, or @config.json", Takes::encoding, &words.from});
  command.text("--heads", words.heads, "N", "Heads (default 8, or the model's)");
  command.text("--dim", words.dim, "N", "Dimensions of a head (default 64, or the model's)");
  command.text("--seed", words.seed, "N", "Draws what would be learned (default 1)");
  command.text("--threads", options.threads, "N", "Threads (default 1, 0: all)");
  command.flag("--json", options.json, "JSON of a stable schema");
  command.output("-o,--out", options.out, "Where the report goes; else standard output");
}

}  // namespace

Command choose_command() {
  const auto options = std::make_shared<ChooseOptions>();
  Command command{"choose", "Recommend an encoding, with reasons and costs"};
  add_options(command, *options);
  command.footer =
      "Without options it asks, on a terminal. Every reason has its source: a paper, or\n"
      "a measurement made now. docs/guide/choose.md says how answers are made.\n"
      "\nTASK:" +
      list_of(inspect::task_answers()) + "\n\nKERNEL:" + list_of(inspect::kernel_answers()) +
      "\n\n"
      "Examples:\n"
      "  bearing choose\n"
      "  bearing choose --task generate --trained 4k --wanted 32k\n"
      "  bearing choose --task images --kernel fused --no-learned\n"
      "  bearing choose --from @config.json --wanted 128k";
  command.run = [options] { choose_encoding(*options); };
  return command;
}

}  // namespace bearing::tool
