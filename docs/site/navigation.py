"""What the site's sidebar has: every page, found by its folder, in the order in which the folder's index links it."""

import re

from pages import EXPLORER_PAGE, Stage, docname, ordered

CAPTIONS = {"tutorial": "Learn", "encodings": "Encodings", "guide": "Guides", "api": "Reference", "project": "Project",
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


def write(stage: Stage, api: list[str], notebooks: str) -> None:
    """Stages all pages; the index and the indices of folders get what the sidebar needs. `notebooks`: the end of the tutorial's."""
    pages = [docname(page) for page in stage.pages()]
    texts = {docname(page): stage.rewritten(page) for page in stage.pages()}
    index = texts["index"]
    if "tutorial/index" in texts:
        texts["tutorial/index"] += notebooks
    folders: dict[str, list[str]] = {}
    for page in [*pages, *api]:
        folder, _, rest = page.partition("/")
        if rest:
            folders.setdefault(folder, []).append(page)
    out = []
    for folder in sorted(folders, key=lambda name: (list(CAPTIONS).index(name) if name in CAPTIONS else 2.5, name)):
        names, head = folders[folder], f"{folder}/index"
        if head in names:
            rest = [name.partition("/")[2] for name in names if name != head]
            if head in texts:
                inner = ordered(iter(rest), texts[head])
                texts[head] += "\n" + toctree(inner)
            more = [EXPLORER_PAGE] if folder == "tutorial" else []
            out.append(toctree([head, *more], CAPTIONS.get(folder, folder.capitalize())))
            continue
        sites = _sites(index)
        groups: dict[str, list[str]] = {}
        for name in ordered(iter(names), index):
            caption = sites.get(name, "More on encodings") if folder == "encodings" else CAPTIONS.get(folder, folder.capitalize())
            groups.setdefault(caption, []).append(name)
        out += [toctree(group, caption) for caption, group in groups.items()]
    sources = stage.write_sources()
    stage.write("source/index.md", "# Files that pages link\n\n" + "\n".join(
        f"- [{name.removeprefix('source/').removesuffix('/index')}]({name.removeprefix('source/')}.md)" for name in sources
    ) + "\n\n" + toctree([name.removeprefix("source/") for name in sources]))
    texts["index"] += "\n" + "\n".join([*out, toctree(["source/index"], "Files")])
    for name, text in texts.items():
        stage.write(name + ".md", text)
