"""The reference: a page per topic with the Python and the C++ of the same thing, and an index of both, side by side.

A topic is a header. A name of Python belongs to the header that declares the C++ of that name; PYTHON_ONLY tells the others.
"""

import os
from pathlib import Path

import cpp_api
import python_api
from comment_text import to_rst

# Names that Python alone has, by the topic that they belong to.
PYTHON_ONLY = {
    "AdviceCosts": "choose", "AdviceOption": "choose", "AdviceReason": "choose", "CatalogEntry": "catalog",
    "Encoding": "description", "Spec": "description", "encoding": "description", "alibi_bias": "alibi", "apply_rope": "rope",
    "rotary_embedding": "rope", "sinusoidal_encoding": "sinusoidal", "DistanceBand": "attention", "inputs": "rows", "target": "target",
    "load": "load", "PerCall": "load", "read_safetensors": "safetensors",
}
MODULES = {"bearing.torch": "PyTorch", "bearing.jax": "JAX", "bearing.plot": "matplotlib"}


def _heading(text: str, mark: str) -> str:
    return f"{text}\n{mark * (2 * len(text))}\n"


def _stem(header: str) -> str:
    return Path(header).stem


class Reference:
    def __init__(self, root: Path, xml: Path, package: Path):
        self.root = root
        self.headers = cpp_api.Headers(xml)
        self.linker = cpp_api.Linker(self.headers)
        self.package = python_api.Package(package)
        every = [str(header.relative_to(root / "include")) for header in sorted(root.glob("include/bearing/**/*.hpp"))]
        self.topics: dict[str, list[str]] = {}  # stem to headers; those of reference/ last
        for header in sorted(every, key=lambda name: ("reference/" in name, name)):
            self.topics.setdefault(_stem(header), []).append(header)
        self.python: dict[str, list[python_api.Name]] = {stem: [] for stem in self.topics}
        lost = []
        for one in self.package.modules["bearing"]:
            topic = self._topic(one.name)
            if topic:
                self.python[topic].append(one)
            else:
                lost.append(one.name)
        if lost:
            raise SystemExit(f"site: PYTHON_ONLY of {os.path.relpath(__file__, root)} must name the topic of: {', '.join(lost)}")

    def _topic(self, name: str) -> str:
        for header in sorted(self.headers.by_header, key=lambda header: ("reference/" in header, "encodings/" not in header)):
            if any(symbol.short == name for symbol in self.headers.by_header[header]):
                return _stem(header)
        return PYTHON_ONLY.get(name, "")

    def title(self, stem: str) -> str:
        """The title of the encoding's page, if it has one."""
        page = self.root / f"docs/encodings/{stem}.md"
        if page.exists():
            return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("#").replace("`", "").strip()
        return stem.replace("_", " ").capitalize()

    def page(self, stem: str) -> str:
        parts = [_heading(self.title(stem), "=")]
        if (self.root / f"docs/encodings/{stem}.md").exists():
            parts.append(f"What it is, with pictures and code: :doc:`/encodings/{stem}`.")
        first = self.topics[stem][0]
        words = cpp_api.own_words(self.root / "include" / first)
        parts.append(to_rst(words, self.linker))
        if self.python[stem]:
            parts += [_heading("Python", "-"), python_api.section("bearing", self.python[stem], self.package)]
        for header in self.topics[stem]:
            symbols = self.headers.by_header.get(header, [])
            parts.append(_heading("C++" if header == first else "C++, the reference", "-"))
            parts.append(f".. code-block:: cpp\n\n   #include <{header}>\n")
            if header != first:
                parts.append(to_rst(cpp_api.own_words(self.root / "include" / header), self.linker))
            parts.append(cpp_api.section(header, symbols, self.linker))
        return "\n\n".join(part for part in parts if part) + "\n"

    def module(self, module: str) -> str:
        parts = [_heading(f"{module}: {MODULES[module]}", "="), to_rst(self.package.text_of(module), self.package.link, "python")]
        return "\n\n".join([*parts, python_api.section(module, self.package.modules[module], self.package), ""])

    def index(self) -> str:
        rows = []
        for stem in sorted(self.topics, key=lambda stem: (f"bearing/encodings/{stem}.hpp" in self.topics[stem], stem)):
            python = ", ".join(f":py:obj:`{one.name} <{one.path}>`" for one in self.python[stem])
            symbols = [symbol for header in self.topics[stem] for symbol in self.headers.by_header.get(header, [])
                       if "reference/" not in header]
            shown = dict.fromkeys(symbol.name for symbol in symbols)
            cpp = ", ".join(self._cpp(name) for name in shown)
            if not python and not cpp:  # a header that includes others
                continue
            rows.append(f"   * - :doc:`{self.title(stem)} <{stem}>`\n     - {python}\n     - {cpp}")
        table = ".. list-table::\n   :header-rows: 1\n   :widths: 18 41 41\n\n   * - topic\n     - Python\n     - C++\n" + "\n".join(rows)
        parts = [_heading("Reference", "="), "Python on the left, the C++ of the same thing on the right. Each topic's page has both.",
                 "For frameworks: " + ", ".join(f":doc:`{module} <{module.replace('.', '-')}>`" for module in MODULES) + ".",
                 "All names of both in one list: :ref:`genindex`.",
                 to_rst(self.package.text_of("bearing"), self.package.link, "python"),
                 _heading("Topics", "-"), table]
        types = "\n".join(f"- ``{name}``: {to_rst(text, self.package.link, 'python')}" for name, text in self.package.types().items())
        parts += [_heading("What signatures call their arguments", "-"), types]
        names = ["   " + module.replace(".", "-") for module in MODULES] + ["   " + stem for stem in sorted(self.topics)]
        names.append("   /genindex")
        return "\n\n".join([*parts, ".. toctree::\n   :hidden:\n\n" + "\n".join(names)]) + "\n"

    def _cpp(self, name: str) -> str:
        if name.startswith("BEARING"):
            return f":c:macro:`{name}`"
        return f":cpp:any:`{name.removeprefix('bearing::')} <{name}>`"

    def write(self, stage) -> list[str]:
        pages = {"api/index": self.index()}
        pages |= {f"api/{stem}": self.page(stem) for stem in self.topics}
        pages |= {f"api/{module.replace('.', '-')}": self.module(module) for module in MODULES}
        for name, text in pages.items():
            stage.write(name + ".rst", text)
        return list(pages)
