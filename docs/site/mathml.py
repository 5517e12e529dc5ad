"""Formulas in LaTeX as MathML, which browsers draw by themselves: no script, no font, no request."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _mathml(node: nodes.Element, display: str) -> str:
    text = node.astext()
    try:
        return convert(text, display=display)
    except Exception as error:  # whatever its parser raises: a page with a formula that cannot be read is wrong
        logger.warning("formula cannot be read: %s: %s", text, error, location=node, type="mathml")
        return ""


def _inline(translator, node: nodes.math) -> None:
    translator.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def _block(translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula" tabindex="0">{_mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
