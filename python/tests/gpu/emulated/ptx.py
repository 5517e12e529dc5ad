"""A kernel in PTX, taken apart."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple


class Instruction(NamedTuple):
    """@guard name operands. An operand in braces is a tuple of registers."""

    guard: str  # a predicate, or nothing
    inverted: bool
    name: tuple[str, ...]  # ("ld", "global", "v4", "b32")
    operands: tuple[str, ...]
    text: str

    @staticmethod
    def of(text: str) -> Instruction:
        """Of a line without its semicolon."""
        guarded = re.match(r"@(!?)(%p\d+)\s+(.*)", text)
        inverted, guard, rest = guarded.groups() if guarded else ("", "", text)
        name, _, operands = rest.partition(" ")
        return Instruction(guard, bool(inverted), tuple(name.split(".")), _split(operands), text)


class Program(NamedTuple):
    """The only kernel of a module."""

    parameters: list[str]
    instructions: list[Instruction]
    labels: dict[str, int]  # where each stands among the instructions

    @staticmethod
    @functools.cache
    def of(text: str) -> Program:
        """Of PTX as Triton gives it."""
        text = re.sub(r"//[^\n]*", "", text[text.index(".entry") :])
        head, _, body = text.partition("{")
        instructions: list[Instruction] = []
        labels: dict[str, int] = {}
        for line in re.split(r"[;\n]", re.sub(r"\{([^{};]*)\}", _in_one_line, body)):
            line = " ".join(line.split())
            label = re.fullmatch(r"(\$\w+):", line)
            if label:
                labels[label[1]] = len(instructions)
            elif re.match(r"[@a-z]", line):
                instructions.append(Instruction.of(line))
        return Program(re.findall(r"\.param [^\n]*?(\w+_param_\d+)", head), instructions, labels)


def _in_one_line(match: re.Match[str]) -> str:
    return " ".join(match[0].split())


@functools.cache
def registers(operand: str) -> list[str]:
    """Those of an operand, in braces or not."""
    return [one.strip() for one in operand.strip("{} ").split(",")]


def _split(operands: str) -> tuple[str, ...]:
    """At commas outside of braces."""
    return tuple(one.strip() for one in re.split(r",(?![^{]*\})", operands) if one.strip())
