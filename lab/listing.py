"""What the lab has: encodings that are in and out, tasks, questions."""

from __future__ import annotations

from .grid import MAIN, QUESTIONS
from .positions import entries
from .tasks import TASKS


def show() -> None:
    """Prints all of it."""
    found = entries()
    inside = [one for one in found if not one.without]
    print(f"encodings that are in ({len(inside)}; * of them are asked unless others are named):")
    for one in inside:
        print(f"  {'*' if one.name in MAIN else ' '} {one.name:26}{one.title}")
    print("\nencodings that are out:")
    for one in found:
        if one.without:
            print(f"    {one.name:26}{one.without}")
    print("\ntasks:")
    for name, task in TASKS.items():
        print(f"    {name:14}{task.title}; trained up to {task.trained} {task.unit}; {task.source}")
    print(f"\nquestions: {', '.join(QUESTIONS)}")
