"""The picture that is shown where a page is linked: its first drawing as PNG, else README's, else any page's. sphinxext-opengraph writes the tags."""

import shutil
import subprocess
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

WIDTH = 1200
HOME = "project/about"  # README: its picture is the project's


def _note(app: Sphinx, doctree: nodes.document) -> None:
    pictures = getattr(app.env, "first_pictures", {})
    found = [image for image in doctree.findall(nodes.image) if image["uri"].startswith("pictures/")]
    pictures.pop(app.env.docname, None)
    if found:
        pictures[app.env.docname] = (found[0]["uri"], found[0].get("alt", ""))
    app.env.first_pictures = pictures


def _merge(app: Sphinx, env, docnames: list[str], other) -> None:
    env.first_pictures = getattr(env, "first_pictures", {}) | getattr(other, "first_pictures", {})


def _png(app: Sphinx, picture: str) -> str:
    """Draws an SVG of the pages as PNG on white, once, and says where it lies on the site."""
    name = f"_previews/{Path(picture).stem}.png"
    file = Path(app.outdir) / name
    source = Path(app.srcdir) / picture
    if not file.exists() or file.stat().st_mtime < source.stat().st_mtime:
        file.parent.mkdir(exist_ok=True)
        program = shutil.which("rsvg-convert")
        if program is None:
            raise RuntimeError("rsvg-convert is missing; Debian's librsvg2-bin has it")
        subprocess.run([program, "--width", str(WIDTH), "--keep-aspect-ratio", "--background-color", "white", "--output",
                        file, source], check=True)
    return name


def _tags(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    if doctree is None:
        return
    pictures = app.env.first_pictures
    picture, alt = pictures.get(pagename) or pictures.get(HOME) or pictures[min(pictures)]
    name = _png(app, picture)
    where = app.config.ogp_site_url + name if app.config.ogp_site_url else context["pathto"](name, resource=True)
    context["meta"] = {**(context["meta"] or {}), "og:image": where, "og:image:alt": alt}


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", _note)
    app.connect("env-merge-info", _merge)
    app.connect("html-page-context", _tags, priority=400)  # before the tags are written
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
