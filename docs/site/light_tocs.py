"""The sidebar made fast: it shows titles alone, and Sphinx would copy every heading and symbol of every page for each page.

While pages are written, a page without pages below it has only its title in the tables of contents that the sidebar is made of;
"on this page" is made of the whole table. It is more than half of the build's time.
"""

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment.adapters.toctree import document_toc


def _title_alone(toc: nodes.bullet_list) -> nodes.bullet_list:
    return nodes.bullet_list("", nodes.list_item("", toc[0][0].deepcopy()))


def _lighten(app: Sphinx, builder) -> None:
    env = app.env
    env.whole_tocs, env.light_tocs, env.whole_now = dict(env.tocs), {}, ""
    for name, toc in env.whole_tocs.items():
        if len(toc) == 1 and next(toc.findall(addnodes.toctree), None) is None:
            env.light_tocs[name] = env.tocs[name] = _title_alone(toc)


def _on_this_page(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """The page that is written now has its whole table, for "on this page" and for the theme, which asks how long it is."""
    env = app.env
    if env.whole_now in env.light_tocs:
        env.tocs[env.whole_now] = env.light_tocs[env.whole_now]
    env.whole_now = pagename
    if pagename in env.light_tocs:
        env.tocs[pagename] = env.whole_tocs[pagename]
        context["toc"] = app.builder.render_partial(document_toc(env, pagename, app.builder.tags))["fragment"]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("write-started", _lighten)
    app.connect("html-page-context", _on_this_page, priority=400)  # before the theme looks at it
    return {"parallel_read_safe": True, "parallel_write_safe": True}
