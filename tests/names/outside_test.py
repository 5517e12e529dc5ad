"""An encoding's name stands in its files and nowhere else: the doors read descriptions.

Usage: outside_test.py ROOT. RoPE is left out, of rows and of values, whose tables and rotations the doors make by hand,
and so are the readers of models' files (io/hf_*, io/dialect_*, io/gguf*, io/load_*), which say what a family's config and
weights mean.
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
DOORS = ["tools", "python/src", "python/bearing", "tests/support", "bench", "io"]
BY_HAND = re.compile(r"^io/(dialect_|gguf|hf_|load_)|_test\.cc$|^bench/.*peers")
ROPE = {"rope_description.cc", "rotary_values.cc"}
# A file of these may name the encoding whose page it is called like.
LAYERS = {root / "python/bearing/torch/layers", root / "python/bearing/jax/layers"}
# Doors that still name encodings, and how many times; a number only ever falls.
STILL: dict[str, int] = {}


def names() -> dict[str, set[str]]:
    """By page, classes (T5, T5Bias) and the functions and names that have an underscore (t5_bucket, kerple_log)."""
    all_of_them: dict[str, set[str]] = {}
    for source in (root / "src/encodings").rglob("*.cc"):
        if source.name in ROPE:
            continue
        text = source.read_text()
        home = re.search(r'to\.home\("(\w+)"', text)
        found = all_of_them.setdefault(home[1] if home else source.stem, set())
        foot = text[text.find("void describe_") :] if "void describe_" in text else ""
        found |= set(re.findall(r'to\.record\(\s*"(\w+)"', text))
        found |= set(re.findall(r'to\.encoding(?:_with)?<[^(]*>\(\s*"(\w+)"', text))
        found |= {name for name in re.findall(r'(?:function|called)\(\s*"(\w+)"', foot) if "_" in name}
    return all_of_them


def main() -> int:
    known = names()
    every = set().union(*known.values())
    word = re.compile(r"\b(" + "|".join(sorted(every, key=len, reverse=True)) + r")\b")
    counts: dict[str, list[str]] = {}
    for door in DOORS:
        for file in sorted((root / door).rglob("*")):
            place = file.relative_to(root).as_posix()
            if (
                file.suffix not in {".cc", ".hpp", ".py", ".h", ".txt"}
                or BY_HAND.search(place)
                or "__pycache__" in place
            ):
                continue
            own = known.get(file.stem, set()) if file.parent in LAYERS else set()
            found = [name for name in word.findall(file.read_text()) if name not in own]
            if found:
                counts[place] = found
    wrong = 0
    for place, found in sorted(counts.items()):
        if len(found) != STILL.get(place, 0):
            print(f"{place}: names encodings {len(found)} times, {STILL.get(place, 0)} are known: {sorted(set(found))}")
            wrong += 1
    for place in sorted(set(STILL) - set(counts)):
        print(f"{place}: names no encoding any more; take it from the list")
        wrong += 1
    return min(wrong, 1)


sys.exit(main())
