"""The questions that pages answer: one page each, and which runs it looks at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """name: of the page, docs/lab/NAME.md, and of its figure. protocol: Setting.question of its runs. about: the encodings
    that the answer is about. beside: others that its picture and table show."""

    name: str
    asks: str
    protocol: str
    about: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def encodings(self) -> tuple[str, ...]:
        return (*self.about, *(one for one in self.beside if one not in self.about))


BIASES = (
    "t5_causal",
    "kerple_log",
    "kerple_power",
    "fire",
    "sandwich",
    "alibi",
    "alibi_learned",
    "shaw",
    "transformer_xl",
)
ENCODERS = ("learned", "sinusoidal", "rope", "alibi", "t5", "fire", "shaw", "transformer_xl", "deberta_v2", "tupe")

QUESTIONS = {
    one.name: one
    for one in (
        Question("rope", "Does RoPE extrapolate?", "text", ("rope",), ("alibi", "nope")),
        Question("sinusoidal", "Do sinusoids extrapolate?", "text", ("sinusoidal",), ("learned", "rope", "alibi")),
        Question("alibi", "Does ALiBi extrapolate?", "text", ("alibi",), ("alibi_learned", "rope", "nope")),
        Question("learned", "Do learned positions extrapolate?", "text", ("learned",), ("sinusoidal", "nope")),
        Question("nope", "Does a model without positions work?", "text", ("nope",), ("rope", "alibi", "sinusoidal")),
        Question("biases", "Do relative biases extrapolate?", "text", BIASES, ("rope",)),
        Question("encoders", "What do encoders need positions for?", "encoders", ("nope",), ENCODERS),
        Question("extension", "How can a context be extended?", "extension"),
        Question("tasks", "Which encodings solve copy, reverse, addition …?", "tasks"),
        Question("images", "What do images at other resolutions need?", "images"),
        Question("leaderboard", "Which encoding did best?", "text"),
    )
}


@dataclass(frozen=True)
class Claim:
    """A claim of the founding documents that only trained models can answer: `quality` of an encoding's extrapolation."""

    encoding: str  # as the claim has it
    quality: str
    runs: str  # the encoding of the runs that answer it
    page: str  # of the question whose runs they are

    @property
    def says(self) -> str:
        return f"extrapolation {self.quality}"

    @property
    def means(self) -> str:
        """The verdict with which it holds."""
        words = {
            "excellent": "extrapolates",
            "good": "extrapolates",
            "moderate": "partly",
            "poor": "does not extrapolate",
        }
        return words[self.quality]


CLAIMS = (
    Claim("sinusoidal", "moderate", "sinusoidal", "sinusoidal"),
    Claim("t5", "moderate", "t5", "encoders"),
    Claim("alibi", "excellent", "alibi", "alibi"),
    Claim("rope", "good", "rope", "rope"),
)
