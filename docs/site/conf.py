"""Sphinx's settings. scripts/site runs Sphinx on the pages that stage.py lays out; nothing is fetched, here or by a reader."""

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = Path(os.environ["SITE_WORK"])
sys.path.insert(0, str(HERE))

header = (ROOT / "include/bearing/version.hpp").read_text(encoding="utf-8")
project = "bearing"
author = "the authors of bearing"
version = release = ".".join(re.findall(r"#define BEARING_VERSION_\w+ (\d+)", header))
language = "en"

extensions = ["myst_parser", "sphinx_copybutton", "sphinxext.opengraph", "mathml", "previews", "light_tocs"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = True
# Names without a place of their own: the standard library's, namespaces, and what only kernels see.
nitpick_ignore_regex = [
    (r"cpp:identifier", r"std(::.*)?|bearing|inspect|reference|Phases|Compute(InPlace)?Of.*"),
    (r"py:.*", r".*"),
]
highlight_language = "text"
myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 6
myst_dmath_double_inline = True
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

ogp_site_url = os.environ.get("SITE_URL", "")  # addresses of pictures are relative without it
ogp_description_length = 160
ogp_social_cards = {"enable": False}

html_theme = "furo"
html_title = f"bearing {version}"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_js_files = ["versions.js"]
templates_path = [str(HERE / "templates")]
html_sidebars = {"**": ["sidebar/brand.html", "sidebar/search.html", "versions.html", "sidebar/scroll-start.html",
                        "sidebar/navigation.html", "sidebar/scroll-end.html"]}
html_extra_path = [str(WORK / "extra")]
html_math_renderer = "mathml"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses where they are files
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fae", "color-brand-content": "#1f5fae"},
    "dark_css_variables": {"color-brand-primary": "#8ab8ff", "color-brand-content": "#8ab8ff"},
    "navigation_with_keys": True,
}
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"
