"""What papers report, with the settings that they had, so that it stands beside what was run here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """One finding of a paper. page: the question that it bears on. verdict: in the words of the rule here, where the
    finding is one about long inputs; encodings: of the runs to hold it against."""

    page: str
    cite: str
    arxiv: str
    setting: str
    finding: str
    encodings: tuple[str, ...] = ()
    verdict: str = ""
    ways: tuple[tuple[str, bool], ...] = ()  # of extension, and whether with fine-tuning: their numbers stand beside it
    ahead_of: tuple[str, ...] = ()  # encodings whose perplexity grows more than that of the first, as the paper has it


PRESS = ("Press, Smith, Lewis 2022", "2108.12409", "causal, WikiText-103, trained at 512 or 1,024 tokens (figure 1)")
KAZEMNEJAD = (
    "Kazemnejad et al. 2023",
    "2305.19466",
    "causal, about 107 million parameters, made tasks, trained up to length 20, asked up to 40, exact match",
)

PAPERS = (
    Paper("alibi", *PRESS, "the perplexity does not get worse as inputs get longer", ("alibi",), "extrapolates"),
    Paper("rope", *PRESS, "the perplexity gets worse as inputs get longer", ("rope",), "does not extrapolate"),
    Paper(
        "sinusoidal", *PRESS, "the perplexity gets worse as inputs get longer", ("sinusoidal",), "does not extrapolate"
    ),
    Paper(
        "biases",
        *PRESS,
        "T5's bias: the perplexity gets worse as inputs get longer",
        ("t5_causal",),
        "does not extrapolate",
    ),
    Paper(
        "rope",
        "Peng et al. 2023",
        "2309.00071",
        "the LLaMA family (abstract)",
        "rotary models fail past the length that they were trained on",
        ("rope",),
        "does not extrapolate",
    ),
    Paper(
        "biases",
        "Chi et al. 2022 (KERPLE)",
        "2205.09921",
        "causal, three large sets of texts (abstract)",
        "the logarithmic form extrapolates excellently",
        ("kerple_log",),
        "extrapolates",
    ),
    Paper(
        "biases",
        "Chi et al. 2023 (Sandwich)",
        "2212.10356",
        "causal language models (abstract)",
        "Sandwich uses what lies further back than the trained length",
        ("sandwich",),
        "extrapolates",
    ),
    Paper(
        "biases",
        "Li et al. 2023 (FIRE)",
        "2310.04418",
        "causal language models (abstract)",
        "FIRE generalises better to longer contexts than T5's bias, ALiBi and KERPLE, which it can represent",
        ("fire",),
        ahead_of=("t5_causal", "alibi", "kerple_log"),
    ),
    Paper(
        "tasks", *KAZEMNEJAD, "NoPE does best over all tasks; ALiBi, RoPE and absolute positions are not well suited"
    ),
    Paper("nope", *KAZEMNEJAD, "NoPE does best over all tasks on longer inputs", ("nope",), ""),
    Paper(
        "nope",
        "Haviv et al. 2022",
        "2203.16634",
        "causal language models of several sizes (abstract)",
        "models without an encoding are competitive with standard ones",
        ("nope",),
        "",
    ),
    Paper(
        "extension",
        "Chen et al. 2023",
        "2306.15595",
        "LLaMA, 7 to 65 billion parameters, trained at 2,048 tokens (abstract)",
        "position interpolation with at most 1,000 steps of fine-tuning reaches 32,768 tokens",
        ways=(("linear", False), ("linear", True)),
    ),
    Paper(
        "extension",
        "Peng et al. 2023",
        "2309.00071",
        "the LLaMA family (abstract)",
        "YaRN needs 10 times fewer tokens and 2.5 times fewer steps than methods before it",
        ways=(("yarn", True), ("linear", True), ("ntk", True)),
    ),
    Paper(
        "extension",
        "Jin et al. 2024",
        "2401.01325",
        "large language models (abstract)",
        "Self-Extend extends the context without fine-tuning",
        ways=(("self_extend", False), ("none", False)),
    ),
    Paper(
        "extension",
        "Gelberg et al. 2025",
        "2512.12167",
        "large language models of several sizes (abstract)",
        "dropping RoPE after training, with a short training afterwards, extends the context without training at long lengths, far"
        " better than scalings of RoPE, and keeps what the model can do at its trained length",
        ways=(("dropped", True), ("yarn", False), ("ntk", False)),
    ),
    Paper(
        "tasks",
        "Ruoss et al. 2023",
        "2305.16843",
        "6,000 models, 15 tasks (abstract)",
        "random positions in training raise the accuracy at unseen lengths by 12.0 % on average",
    ),
)
