"""The pages of the site: Markdown files of the repository as they stand, where each lies on the site, and their links.

docs/ is the site's root, so that docs/encodings/t5.md is encodings/t5.html; a README is the index of its folder; a file that
a page links and that is no page is shown as source/PATH.html.
"""

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/docs"))
from links import COMMENT, links, without_blocks

PICTURES = {".svg", ".png"}
LANGUAGES = {".cc": "cpp", ".hpp": "cpp", ".h": "cpp", ".inc": "cpp", ".py": "python", ".json": "json", ".cmake": "cmake",
             ".toml": "toml", ".css": "css", ".js": "javascript", ".html": "html"}


def docname(path: str) -> str:
    """Where a Markdown file of the repository lies on the site, without its ending."""
    stem = path.removesuffix(".md")
    if not path.startswith("docs/"):
        return "project/" + ("about" if stem == "README" else stem.lower())
    stem = stem.removeprefix("docs/")
    return re.sub(r"(^|/)README$", r"\1index", stem)


@dataclass
class Stage:
    """A folder with the sources of the site, written anew; files that did not change keep their time."""

    root: Path  # the repository
    to: Path
    sources: set[str] = field(default_factory=set)  # files and folders that pages link, and that are no pages
    written: set[Path] = field(default_factory=set)

    def pages(self) -> list[str]:
        found = [*self.root.glob("*.md"), *self.root.glob("docs/**/*.md")]
        names = sorted(str(page.relative_to(self.root)) for page in found)
        return [name for name in names if not name.startswith("docs/site/")]

    def write(self, name: str, content: str | bytes) -> None:
        file = self.to / name
        data = content.encode() if isinstance(content, str) else content
        self.written.add(file)
        if not file.exists() or file.read_bytes() != data:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def remove_others(self) -> None:
        for file in self.to.rglob("*"):
            if file.is_file() and file not in self.written:
                file.unlink()

    def place(self, path: str) -> str:
        """The file of the stage that shows a file or folder of the repository."""
        if path.endswith(".md"):
            return docname(path) + ".md"
        if Path(path).suffix in PICTURES:
            return path.removeprefix("docs/")
        if (self.root / path).is_dir():
            if (self.root / path / "README.md").exists():
                return docname(f"{path}/README.md") + ".md"
            self.sources.add(path)
            return f"source/{path}/index.md"
        self.sources.add(path)
        return f"source/{path}.md"

    def rewritten(self, page: str) -> str:
        """The page's text with links as they must be on the site, and without comments."""
        text, own = (self.root / page).read_text(encoding="utf-8"), docname(page)
        changes = [(match.start(), match.end(), "") for match in COMMENT.finditer(without_blocks(text))]
        hidden = [range(start, end) for start, end, _ in changes]
        for link in links(text):
            path, anchor = link.parts()
            if link.is_external or not path or any(link.start in comment for comment in hidden):
                continue
            target = os.path.normpath(path[1:] if path.startswith("/") else os.path.join(os.path.dirname(page), path))
            if not (self.root / target).exists():
                raise SystemExit(f"site: {page} links {link.target}, and {target} is not in the repository")
            to = os.path.relpath(self.place(target), os.path.dirname(own))
            changes.append((link.start, link.end, to + (f"#{anchor}" if anchor and to.endswith(".md") and
                                                         not self.place(target).startswith("source/") else "")))
        for start, end, new in sorted(changes, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def copy_pictures(self) -> None:
        for picture in sorted(self.root.glob("docs/**/*")):
            if picture.suffix in PICTURES:
                self.write(str(picture.relative_to(self.root / "docs")), picture.read_bytes())

    def write_sources(self) -> list[str]:
        """Pages of the files that pages link, and of the folders; the docnames."""
        done: set[str] = set()
        while self.sources - done:
            for path in sorted(self.sources - done):
                done.add(path)
                place = self.place(path)
                self.write(place, self._folder(path) if (self.root / path).is_dir() else self._file(path))
        return sorted(self.place(path).removesuffix(".md") for path in done)

    def _folder(self, path: str) -> str:
        own = f"source/{path}"
        files = [f"{path}/{file.name}" for file in sorted((self.root / path).iterdir()) if file.is_file()]
        lines = [f"- [{Path(file).name}]({os.path.relpath(self.place(file), own)})" for file in files]
        return "\n".join([f"# {path}/", "", "Files of the repository:", "", *lines, ""])

    def _file(self, path: str) -> str:
        text = (self.root / path).read_text(encoding="utf-8")
        first = text.partition("\n")[0]
        language = LANGUAGES.get(Path(path).suffix) or ("bash" if first.startswith("#!") and "sh" in first else "text")
        fence = "`" * (3 + max((len(run) for run in re.findall(r"`+", text)), default=0))
        return f"# {path}\n\nA file of the repository.\n\n{fence}{{code-block}} {language}\n:force:\n\n{text}\n{fence}\n"


def ordered(names: list[str], index: str) -> list[str]:
    """Docnames in the order in which an index links them, then the others by name."""
    targets = [link.parts()[0] for link in links(index)]
    place = {re.sub(r"\.md$", "", target): number for number, target in reversed(list(enumerate(targets)))}
    return sorted(names, key=lambda name: (place.get(name, len(targets)), name))
