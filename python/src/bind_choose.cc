// Which encoding, for a situation: choose().

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <bearing/choose.hpp>
#include <bearing/io.hpp>
#include <bearing/say.hpp>

#include "arrays.hpp"
#include "bind.hpp"
#include "records.hpp"
#include "specs.hpp"
#include "unlocked.hpp"

namespace bearing::python {

namespace {

using inspect::Advice;
using inspect::Answer;
using inspect::Costs;
using inspect::Reason;
using inspect::Situation;

/// The place of a word among answers.
template <class Enum>
Enum answered(const std::string& word, const std::vector<Answer>& answers, const char* argument) {
  std::string words;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].word == word) return static_cast<Enum>(i);
    words += (i == 0 ? "'" : i + 1 < answers.size() ? ", '" : " or '") + answers[i].word + "'";
  }
  Argument{"choose", argument}.fail(words, "'" + word + "'");
}

nb::object recommended(const Advice& advice) {
  const bool any = !advice.options.empty() && advice.options.front().rank == inspect::Rank::recommended;
  return any ? nb::cast(advice.options.front()) : nb::none();
}

void bind_records(nb::module_& m) {
  record<Reason>(m, "AdviceReason", "Why an encoding is recommended, or not.",
                 {{"text", "str", [](const Reason& r) { return text(r.text); }, "The reason: one sentence."},
                  {"source", "str", [](const Reason& r) { return text(r.source); },
                   "Where it is from: 'arXiv …', 'measured', or '' if it follows from the situation."}});
  record<Costs>(
      m, "AdviceCosts", "What an encoding costs.",
      {{"parameters", "int", [](const Costs& c) -> nb::object { return nb::int_(c.parameters); },
        "How many numbers training learns in one layer."},
       {"held", "int", [](const Costs& c) -> nb::object { return nb::int_(c.held); },
        "How many numbers stay in memory at the measured length."},
       {"memory", "str", [](const Costs& c) { return text(c.memory); },
        "How these grow with the length: 'none', 'O(1)', 'O(L)', …"},
       {"time", "float | None",
        [](const Costs& c) -> nb::object { return c.time ? nb::object(nb::float_(*c.time)) : nb::none(); },
        "The time of attention with it, divided by the time without it, measured now; 1 if it acts on the input, None "
        "if "
        "it goes by indices that the caller gives."}});
  using inspect::Option;
  record<Option>(m, "AdviceOption", "An encoding, and whether it fits a situation.",
                 {{"rank", "str", [](const Option& o) -> nb::object { return nb::str(inspect::name(o.rank)); },
                   "'recommended', 'alternative' or 'avoid'."},
                  {"encoding", "str", [](const Option& o) { return text(o.encoding); },
                   "The encoding as check() and encoding() take it."},
                  {"name", "str", [](const Option& o) { return text(o.name); }, "Its name in catalog()."},
                  {"reasons", "tuple[AdviceReason, ...]", [](const Option& o) { return tuple_of(o.reasons); },
                   "Reasons for the rank, at least one."},
                  {"costs", "AdviceCosts | None",
                   [](const Option& o) -> nb::object { return o.costs ? nb::cast(*o.costs) : nb::none(); },
                   "Its costs, or None for an encoding that cannot be used here."},
                  {"models", "tuple[str, ...]", [](const Option& o) { return tuple_of(o.models); },
                   "Types of models that have it, at most 8."},
                  {"unless", "str", [](const Option& o) { return text(o.unless); }, "What would change the answer."}});
  record<Advice>(m, "Advice", "The answer of choose().",
                 {{"assumed", "bool", [](const Advice& a) -> nb::object { return nb::bool_(a.situation.assumed); },
                   "Whether nothing says what the model is trained on, so that 2,048 tokens were assumed."},
                  {"recommended", "AdviceOption | None", [](const Advice& a) { return recommended(a); },
                   "The recommended option, which is the first; None if nothing that is known fits."},
                  {"options", "tuple[AdviceOption, ...]", [](const Advice& a) { return tuple_of(a.options); },
                   "The recommended option, if any, then alternatives, then what to avoid."},
                  {"unknowns", "tuple[str, ...]", [](const Advice& a) { return tuple_of(a.unknowns); },
                   "Questions about the situation that have no known answer."},
                  {"measured_length", "int", [](const Advice& a) -> nb::object { return nb::int_(a.measured.length); },
                   "How many tokens properties were measured at."},
                  {"timed_length", "int", [](const Advice& a) -> nb::object { return nb::int_(a.timed); },
                   "How many tokens attention was timed at."}});
}

}  // namespace

void bind_choose(nb::module_& m) {
  bind_records(m);
  m.def(
      "choose",
      [](const std::optional<std::string>& task, std::optional<Index> trained, std::optional<Index> wanted,
         std::optional<bool> causal, std::optional<Index> axes, const std::string& kernel, bool learned, bool tuning,
         std::optional<Index> memory, nb::handle model, std::optional<Index> heads, std::optional<Index> dim,
         std::uint64_t seed) {
        Situation s{.assumed = true,
                    .causal = causal,
                    .kernel = answered<inspect::AttentionKernel>(kernel, inspect::kernel_answers(), "kernel"),
                    .learned = learned,
                    .tuning = tuning,
                    .seed = seed,
                    .models = [](const std::string& encoding) { return model_types_of(encoding); }};
        if (task) s.task = answered<inspect::Task>(*task, inspect::task_answers(), "task");
        if (!model.is_none()) inspect::take_model(s, subject_of(said_by(model, {"choose", "model"})));
        s.trained = trained.value_or(s.trained), s.wanted = wanted.value_or(0);
        if (trained) s.assumed = false;
        s.heads = heads.value_or(s.heads), s.dim = dim.value_or(s.dim);
        s.axes = axes.value_or(0), s.memory = memory.value_or(0);
        const Unlocked released;
        return inspect::choose(s);
      },
      nb::arg("task") = nb::none(), nb::kw_only(), nb::arg("trained") = nb::none(), nb::arg("wanted") = nb::none(),
      nb::arg("causal") = nb::none(), nb::arg("axes") = nb::none(), nb::arg("kernel") = "any",
      nb::arg("learned") = true, nb::arg("tuning") = true, nb::arg("memory") = nb::none(),
      nb::arg("model") = nb::none(), nb::arg("heads") = nb::none(), nb::arg("dim") = nb::none(), nb::arg("seed") = 1,
      nb::sig("def choose(task: str | None = None, *, trained: int | None = None, wanted: int | None = None, "
              "causal: bool | None = None, axes: int | None = None, kernel: str = 'any', learned: bool = True, "
              "tuning: bool = True, memory: int | None = None, model: str | Spec | None = None, "
              "heads: int | None = None, dim: int | None = None, seed: int = 1) -> Advice"),
      "Recommends an encoding, with reasons and their sources, costs, and what would change the answer.\n\n"
      "    advice = bearing.choose('generate', trained=4096, wanted=32768)\n"
      "    advice.recommended.encoding              'rope_yarn:factor=8,trained_length=4096,pairing=half'\n\n"
      "task: 'generate', 'understand', 'translate', 'images', 'speech' or 'unordered'; by default what the model "
      "is for, where its file or its encoding says it, else 'generate'.\n"
      "trained: how many tokens or patches the model is trained for; by default what the model says, else 2048.\n"
      "wanted: how many it must serve.\n"
      "causal: whether a query sees only keys before it; by default as usual for the task.\n"
      "axes: how many coordinates a position has, 1 or 2; by default the model's, or as usual for the task.\n"
      "kernel: what computes attention: 'any', 'bias', 'fused' or 'linear'.\n"
      "learned: whether the encoding may have learned numbers.\n"
      "tuning: whether the model can be trained a little at the wanted length.\n"
      "memory: how many bytes the encoding may hold at most.\n"
      "model: an encoding at hand, as encoding() takes it, or '@config.json'.\n"
      "heads: how many heads the model has.\n"
      "dim: how many dimensions a head has.\n"
      "seed: draws the numbers that a model would learn.\n\n"
      "Raises RangeError for a number out of range, ShapeError for a dim that is not a multiple of 4, and for sizes "
      "that the model does not have.");
}

}  // namespace bearing::python
