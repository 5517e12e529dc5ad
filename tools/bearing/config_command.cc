#include <algorithm>
#include <bearing/gguf.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "config_report.hpp"
#include "errors.hpp"
#include "outputs.hpp"
#include "terminal.hpp"

namespace bearing::tool {
namespace {

struct ConfigOptions {
  std::vector<std::string> files;
  std::string length, layer, out, write, architecture;
  bool json = false, all = false, apart = false;
};

ConfigReport make_report(const ConfigOptions& options, const std::string& file) {
  Index seq_len = 0, layer = -1;
  if (!options.length.empty()) seq_len = parse_index("--length", options.length, 1, max_position);
  Model model = read_model(file);
  const auto layers = static_cast<Index>(model.layers.size());
  if (!options.layer.empty()) layer = parse_index("--layer", options.layer, 0, layers - 1);
  return config_report(std::move(model), seq_len, layer, options.all ? Pairs::all : Pairs::elided);
}

/// Of one file its report; of several a table, their reports one after the other, or a JSON array.
std::string report_text(const ConfigOptions& options) {
  std::vector<ConfigReport> reports;
  for (const std::string& file : options.files) reports.push_back(make_report(options, file));
  const bool several = reports.size() > 1;
  if (several && !options.json && !options.apart) return side_by_side(reports, output_style(options.out));
  std::string out;
  for (const ConfigReport& report : reports) {
    if (!out.empty()) out += options.json ? "," : "\n";
    out += options.json ? to_json(report)
                        : to_text(report, output_style(options.out), options.all ? Pairs::all : Pairs::elided);
    if (options.json) out.pop_back();  // the newline
  }
  if (!options.json) return out;
  return several ? '[' + out + "]\n" : out + '\n';
}

void say(const std::vector<ConfigWarning>& warnings) {
  for (const ConfigWarning& warning : warnings) note("warning: " + warning_text(warning));
}

/// What llama.cpp needs to turn queries and keys as the file says.
void write_gguf(const ConfigOptions& options) {
  if (options.out.empty()) throw UsageError("--write gguf needs -o FILE: a GGUF file is no text");
  const GgufModel written = gguf_model(read_model(options.files[0]), options.architecture);
  say(written.warnings);
  deliver(options.out, gguf_bytes(written));
}

/// The file in another spelling; what is to be said of it goes to standard error.
void write_file(const ConfigOptions& options) {
  if (options.files.size() > 1) throw UsageError("--write takes one FILE");
  const bool report = options.json || options.all || options.apart || !options.length.empty() || !options.layer.empty();
  if (report) throw UsageError("--write prints the file and no report: only -o goes with it");
  if (options.write == "gguf") return write_gguf(options);
  if (!options.architecture.empty()) throw UsageError("--architecture goes with --write gguf alone");
  const SpelledConfig written = spelled(options.files[0], options.write == "v4" ? HfSpelling::v4 : HfSpelling::v5);
  say(written.warnings);
  deliver(options.out, written.text);
}

}  // namespace

Command config_command() {
  const auto o = std::make_shared<ConfigOptions>();
  Command command{"config", "Show what a model's config.json does with positions"};
  command.options.push_back(
      {"FILE", "...", "Hugging Face config.json files, models' folders, or -", Takes::input, &o->files, {}, true});
  command.text("--length", o->length, "N", "Length in tokens, for dynamic NTK and LongRoPE");
  command.text("--layer", o->layer, "I", "Only this layer, and those that are like it");
  command.flag("--all", o->all, "Every pair and every kind of layer, however many");
  command.flag("--apart", o->apart, "Several files: whole reports, one after the other");
  command.flag("--json", o->json, "JSON, in full precision, of a stable schema");
  command.word("--write", o->write, "FORM", {"v4", "v5", "gguf"}, "As transformers 4 or 5 spells it, or for llama.cpp");
  command.text("--architecture", o->architecture, "NAME", "With --write gguf: llama.cpp's name of the code");
  command.output("-o,--out", o->out, "Where the report goes; else standard output");
  command.footer =
      "Prints each distinct encoding of the layers: its type, pairing, base and\n"
      "scaling, the frequency and wavelength of each pair, the factors that\n"
      "attention needs, and warnings. Several files stand beside each other, one\n"
      "column each.\n"
      "\n"
      "Examples:\n"
      "  bearing config config.json\n"
      "  bearing config config.json --length 128k --layer 5 --all\n"
      "  bearing config llama/ qwen/ gemma/\n"
      "  bearing config config.json --json > encoding.json\n"
      "  bearing config config.json --write v4 -o old/config.json\n"
      "  bearing config config.json --write gguf -o rope.gguf";
  command.run = [o] {
    if (!o->write.empty()) return write_file(*o);
    if (!o->architecture.empty()) throw UsageError("--architecture goes with --write gguf alone");
    deliver(o->out, report_text(*o));
  };
  return command;
}

}  // namespace bearing::tool
