"""What the site's sidebar has: every page, found by its folder, in the order in which the folder's index links it."""

import os
import re

from pages import Stage, docname, ordered

# In this order; another folder comes before the project's pages.
CAPTIONS = {"tutorial": "Learn", "explorer": "Learn", "guide": "Guides", "api": "Reference", "encodings": "Encodings", "project": "Project",
            "adr": "Decisions"}
SITES = {"input": "On the input", "query/key": "On queries and keys", "score": "On the score", "none": "No encoding"}


def toctree(names: list[str], caption: str = "") -> str:
    """Hidden: the sidebar shows it. Names are relative to the page that has it."""
    head = ["```{toctree}", ":hidden:"] + ([f":caption: {caption}"] if caption else [])
    return "\n".join([*head, "", *names, "```", ""])


def _sites(index: str) -> dict[str, str]:
    """Where the encodings of a page act, as the table of docs/README.md says: docname to caption."""
    found = {}
    for match in re.finditer(r"^\| \[[^\]]*\]\((encodings/\w+)\.md\) .* \| ([^|]*?) \|$", index, re.M):
        found.setdefault(match[1], SITES.get(match[2].split(",")[0], "More encodings"))
    return found


def parent(name: str, pages: set[str]) -> str:
    """The index that lists a page: the nearest one above; none for what the sidebar lists by itself."""
    folder = os.path.dirname(name.removesuffix("/index"))
    while folder:
        if f"{folder}/index" in pages and f"{folder}/index" != name:
            return f"{folder}/index"
        folder = os.path.dirname(folder)
    return ""


def _groups(names: list[str], index: str) -> dict[str, list[str]]:
    """The sidebar's parts: captions, each with its pages."""
    sites, groups = _sites(index), {}
    place = {folder: number for number, folder in enumerate(CAPTIONS)} | {"index": -1}
    other = place["project"] - 0.5
    for name in sorted(ordered(names, index), key=lambda name: place.get(name.partition("/")[0], other)):
        folder = name.partition("/")[0]
        caption = CAPTIONS.get(folder, folder.replace("_", " ").capitalize())
        groups.setdefault(sites.get(name, "More on encodings") if folder == "encodings" else caption, []).append(name)
    return groups


def write(stage: Stage, api: list[str], ends: dict[str, str]) -> None:
    """Stages all pages; the index and the indices of folders get what the sidebar needs. `ends`: what a page ends with here."""
    texts = {docname(page): stage.rewritten(page) for page in stage.pages()}
    pages = {*texts, *api}
    below: dict[str, list[str]] = {}
    for name in sorted(pages - {"index"}):
        below.setdefault(parent(name, pages), []).append(name)
    groups = _groups(below.pop(""), texts["index"])
    for name, end in ends.items():
        texts[name] += end
    for head, names in below.items():
        if head in texts:  # the reference's has its own
            folder = os.path.dirname(head)
            texts[head] += "\n" + toctree(ordered([name.removeprefix(folder + "/") for name in names], texts[head]))
    texts["index"] += "\n" + "\n".join(toctree(names, caption) for caption, names in groups.items())
    texts["index"] += "\n" + toctree(["source/index"], "Files")
    sources = [name.removeprefix("source/") for name in stage.write_sources()]
    lines = [f"- [{name.removesuffix('/index')}]({name}.md)" for name in sources]
    stage.write("source/index.md", "\n".join(["# Files that pages link", "", *lines, "", toctree(sources)]))
    for name, text in texts.items():
        stage.write(name + ".md", text)
