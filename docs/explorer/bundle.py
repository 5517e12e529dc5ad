"""bundle.py WASM OUT: the explorer's sources and the library as one page that opens from a file."""

import base64
import gzip
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent.parent / "examples" / "models"
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)


def modules(name, done):
    """The texts of a module and of what it imports, each once, what is needed first."""
    if name in done:
        return
    done[name] = None  # in case two import each other
    text = (HERE / f"{name}.js").read_text()
    for _, needed in IMPORT.findall(text):
        modules(needed, done)
    del done[name]
    done[name] = text


def script():
    """All modules in one: no two may call something by the same name at their outermost level."""
    texts = {}
    modules("main", texts)
    names = {}
    for module, text in texts.items():
        for name in re.findall(r"^(?:export )?(?:async )?(?:function\*?|class|const|let) (\w+)", text, re.MULTILINE):
            if name in names:
                raise SystemExit(f"bundle.py: {module}.js and {names[name]}.js both have {name}")
            names[name] = module
    return "\n".join(re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE) for text in texts.values())


def page(wasm):
    text = (HERE / "index.html").read_text()
    samples = {file.stem: file.read_text() for file in sorted(MODELS.glob("*.json"))}
    parts = {
        "/* style.css */": (HERE / "style.css").read_text(),
        '<script type="application/json" id="samples">{}': '<script type="application/json" id="samples">'
        + json.dumps(samples).replace("<", "\\u003c"),
        '<script type="text/plain" id="wasm">': '<script type="text/plain" id="wasm">'
        + base64.b64encode(gzip.compress(wasm, mtime=0)).decode(),
        "/* main.js */": script(),
    }
    for place, part in parts.items():
        if text.count(place) != 1:
            raise SystemExit(f"bundle.py: index.html must have {place} once, has it {text.count(place)} times")
        text = text.replace(place, part)
    return text


if __name__ == "__main__":
    wasm_file, out = map(pathlib.Path, sys.argv[1:])
    out.write_text(page(wasm_file.read_bytes()))
