#include "choose_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "json_writer.hpp"

namespace bearing::tool {
namespace {

using inspect::Advice;
using inspect::Costs;
using inspect::Rank;
using inspect::Reason;
using inspect::Situation;

const std::string& word(const std::vector<inspect::Answer>& answers, std::size_t i) { return answers[i].word; }
const std::string& task_word(const Situation& s) {
  return word(inspect::task_answers(), static_cast<std::size_t>(*s.task));
}
const std::string& kernel_word(const Situation& s) {
  return word(inspect::kernel_answers(), static_cast<std::size_t>(s.kernel));
}

std::string situation_text(const Advice& advice) {
  const Situation& s = advice.situation;
  const char* units = s.axes == 2 ? "patches" : "tokens";  // of text, where a third axis is time
  std::string out = fmt::format("{}{}, {}, {}, ", task_word(s), advice.task_known ? "" : " (not said: --task)",
                                *s.causal ? "causal" : "not causal",
                                s.axes == 1   ? "one axis"
                                : s.axes == 2 ? "two axes"
                                              : "three axes");
  out += s.window > 0    ? fmt::format("a window of {} {}", grouped(s.window), units)
         : s.assumed     ? fmt::format("trained on {} {}, which is assumed (--trained)", grouped(s.trained), units)
         : s.trained > 0 ? fmt::format("trained on {} {}", grouped(s.trained), units)
                         : "trained length not stated";
  if (s.longest > s.trained) out += fmt::format(", used up to {}", grouped(s.longest));
  if (const Index now = std::max(s.trained, s.longest); s.wanted != now) {
    out += fmt::format(", wanted {}", grouped(s.wanted));
    const bool apart = s.window == 0 && !(s.from && s.from->lengths.span > 0);  // further than in training
    if (s.wanted > now && apart) out += s.tuning ? " with some training there" : " without training there";
  }
  out += fmt::format("; kernel: {}; {} of {}", kernel_word(s), counted(s.heads, "head"), s.dim);
  if (!s.learned) out += "; nothing learned";
  if (s.memory > 0) out += fmt::format("; at most {} bytes", grouped(s.memory));
  if (s.from) out += fmt::format("; a model with {}", printable(s.from->name));
  return out + ".";
}

std::string costs_text(const Costs& costs, const Advice& advice) {
  const std::string learned =
      costs.parameters == 0 ? "nothing learned" : grouped(costs.parameters) + " learned numbers";
  const std::string held = costs.memory == "none"
                               ? "holds nothing"
                               : fmt::format("holds {} numbers at {} tokens, {}", grouped(costs.held),
                                             grouped(advice.measured.length), costs.memory);
  const std::string time = !costs.time        ? "attention is not timed, as it goes by indices that are given"
                           : *costs.time == 1 ? "no time in attention"
                                              : fmt::format("attention takes {:.2f} times as long at {} tokens",
                                                            *costs.time, grouped(advice.timed));
  return fmt::format("Costs: {}; {}; {}.", learned, held, time);
}

/// Whether it is another scaling for a model's file.
bool changes_the_file(const inspect::Option& option, const Situation& s) {
  const bool rotary = option.name.starts_with("rope_") && s.from->description.name.starts_with("rope");
  return option.rank == Rank::recommended && rotary && s.from->name.starts_with('@') && option.encoding != s.from->name;
}

std::string option_text(const inspect::Option& option, const Advice& advice, const Style& style) {
  const std::size_t width = style.width;
  const auto line = [&](const std::string& text) { return "  " + wrapped(text, width, 4); };
  const std::string encoding = printable(option.encoding);  // it may be a file's name
  std::string out = bold(style, encoding);
  out += option.title.empty() ? "\n" : fmt::format(" ({})\n", option.title);
  if (encoding.size() + option.title.size() + 4 > width) {
    out = wrapped(fmt::format("{} ({})", encoding, option.title), width, 4);
  }
  for (const Reason& reason : option.reasons) {
    out += line(reason.source.empty() ? reason.text : fmt::format("{} [{}]", reason.text, reason.source));
  }
  if (option.costs && option.rank != Rank::avoid) out += line(costs_text(*option.costs, advice));
  if (advice.situation.from && changes_the_file(option, advice.situation)) {
    out += line(
        fmt::format("For config.json, in Python: bearing.hf_rope(bearing.encoding(\"{}:...\"), \"v5\").", option.name));
  }
  if (!option.models.empty()) out += line(fmt::format("Models that have it: {}.", fmt::join(option.models, ", ")));
  if (!option.unless.empty()) out += line("Unless: " + option.unless);
  return out;
}

const char* heading(Rank rank) {
  return rank == Rank::recommended ? "Take" : rank == Rank::alternative ? "Or" : "Avoid";
}

/// What would let something fit.
std::string nothing_fits(const Situation& s) {
  std::string ways;
  const auto add = [&](bool helps, const char* way) {
    if (helps) ways += fmt::format("{}{}", ways.empty() ? "" : ", or ", way);
  };
  add(s.memory > 0, "allow more bytes (--memory)");
  add(s.memory > 0, "ask for a shorter length (--wanted)");
  add(!s.learned, "allow learned numbers (without --no-learned)");
  add(s.kernel != inspect::AttentionKernel::any, "take another kernel (--kernel)");
  return fmt::format("Nothing that is known fits. To change that, {}.", ways);
}

}  // namespace

std::string to_text(const Advice& advice, const Style& style) {
  std::string out = wrapped("For: " + situation_text(advice), style.width, 0);
  if (advice.options.empty() || advice.options.front().rank == Rank::avoid) {
    out += "\n" + wrapped(nothing_fits(advice.situation), style.width, 0);
  }
  std::optional<Rank> before;
  for (const inspect::Option& option : advice.options) {
    if (before != option.rank) out += fmt::format("\n{}\n", bold(style, heading(option.rank)));
    before = option.rank;
    out += option_text(option, advice, style);
  }
  out += fmt::format("\n{}\n", bold(style, "Nobody knows"));
  for (const std::string& unknown : advice.unknowns) out += "  " + wrapped(unknown, style.width, 4);
  return out;
}

namespace {

void write(JsonWriter& json, const Situation& s) {
  json.key("situation");
  json.begin_object();
  json.member("task", std::string_view(task_word(s)));
  json.member("trained", s.trained);
  json.member("assumed", s.assumed);
  json.member("wanted", s.wanted);
  json.member("longest", s.longest);
  json.member("window", s.window);
  json.member("causal", *s.causal);
  json.member("axes", s.axes);
  json.member("kernel", std::string_view(kernel_word(s)));
  json.member("learned", s.learned);
  json.member("tuning", s.tuning);
  json.member("memory", s.memory);
  json.member("heads", s.heads);
  json.member("dim", s.dim);
  json.key("from");
  if (s.from) {
    json.value(std::string_view(s.from->name));
  } else {
    json.null();
  }
  json.end_object();
}

void write(JsonWriter& json, const inspect::Option& option) {
  json.begin_object();
  json.member("rank", inspect::name(option.rank));
  json.member("encoding", std::string_view(option.encoding));
  json.member("name", std::string_view(option.name));
  json.key("reasons");
  json.begin_array();
  for (const Reason& reason : option.reasons) {
    json.begin_object();
    json.member("text", std::string_view(reason.text));
    json.member("source", std::string_view(reason.source));
    json.end_object();
  }
  json.end_array();
  json.key("costs");
  if (option.costs) {
    json.begin_object();
    json.member("parameters", option.costs->parameters);
    json.member("held", option.costs->held);
    json.member("memory", std::string_view(option.costs->memory));
    json.key("time");
    if (option.costs->time) {
      json.value(*option.costs->time);
    } else {
      json.null();
    }
    json.end_object();
  } else {
    json.null();
  }
  json.list("models", option.models);
  json.member("unless", std::string_view(option.unless));
  json.end_object();
}

}  // namespace

std::string to_json(const Advice& advice) {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "bearing.choose/1");
  write(json, advice.situation);
  json.member("measured_length", advice.measured.length);
  json.member("measured_heads", advice.measured.heads);
  json.member("timed_length", advice.timed);
  json.key("options");
  json.begin_array();
  for (const inspect::Option& option : advice.options) write(json, option);
  json.end_array();
  json.list("unknowns", advice.unknowns);
  json.end_object();
  return json.text();
}

}  // namespace bearing::tool
