"""Tests the site that scripts/site built: site_test.py REPOSITORY. In Chromium, from files, as a reader opens it."""

import html.parser
import json
import re
import sys
import unittest
from importlib import util
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.util.inventory import InventoryFile

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tool"))
import chromium

ROOT = Path(sys.argv.pop(1)).resolve()
SITE = ROOT / "build/site"
VERSION = ".".join(re.findall(r"#define BEARING_VERSION_\w+ (\d+)", (ROOT / "include/bearing/version.hpp").read_text()))
HERE = SITE / VERSION
PAGES = ("index.html", "encodings/rope.html", "guide/attention.html", "api/index.html", "api/rope.html", "api/bearing-torch.html")
# What axe is asked: all its rules, and what a dark page has of its own. What holds is not listed, which takes half the time.
WHOLE = "{resultTypes: ['violations']}"
COLOURS = "{resultTypes: ['violations'], runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}}"
# What a page loads or links; an address may stand in a text without being asked for.
ADDRESSES = {"a": "href", "link": "href", "script": "src", "img": "src", "source": "srcset", "iframe": "src"}


class Read(html.parser.HTMLParser):
    """Addresses, anchors and previews of a page."""

    def __init__(self, file):
        super().__init__()
        self.addresses, self.anchors, self.meta = [], set(), {}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        has = dict(attributes)
        self.anchors |= {has[name] for name in ("id", "name") if has.get(name)}
        if tag in ADDRESSES and has.get(ADDRESSES[tag]):
            self.addresses.append((tag, has[ADDRESSES[tag]]))
        if tag == "meta" and "content" in has:
            self.meta[has.get("property") or has.get("name")] = has["content"]


def is_elsewhere(address):
    return bool(re.match(r"[a-z][a-z+.-]*:|//", address))


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The explorer is a page of its own, with tests of its own.
        cls.pages = {file: Read(file) for file in sorted(HERE.rglob("*.html")) if file.name != "explorer.html"}

    def test_every_page_of_the_repository_is_there(self):
        missing = []
        for page in [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md"), *ROOT.glob("docs/*/*/*.md")]:
            path = re.sub(r"(^|/)README$", r"\1index", str(page.relative_to(ROOT / "docs").with_suffix("")))
            if not (HERE / f"{path}.html").exists():
                missing.append(path)
        self.assertEqual([], missing)
        self.assertGreater(len(self.pages), 150)

    def test_every_address_leads_to_a_file_and_an_anchor(self):
        broken = []
        for file, page in self.pages.items():
            for _, address in page.addresses:
                parts = urlsplit(address)
                if is_elsewhere(address):
                    continue
                target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
                if not target.is_file():
                    broken.append(f"{file.relative_to(HERE)}: {address}")
                elif parts.fragment and target in self.pages and unquote(parts.fragment) not in self.pages[target].anchors:
                    broken.append(f"{file.relative_to(HERE)}: {address}: no such anchor")
        self.assertEqual([], broken)

    def test_nothing_is_loaded_from_elsewhere(self):
        loaded = [(file.name, address) for file, page in self.pages.items() for tag, address in page.addresses
                  if tag != "a" and is_elsewhere(address) and not address.startswith("data:")]
        self.assertEqual([], loaded)
        for style in HERE.rglob("*.css"):
            self.assertNotRegex(style.read_text(encoding="utf-8"), r"(@import|url\()\s*[\"']?(https?:)?//", style)

    def test_every_page_has_a_preview(self):
        for file, page in self.pages.items():
            name = str(file.relative_to(HERE))
            if name in ("genindex.html", "search.html", "py-modindex.html", "cpp-index.html"):
                continue
            with self.subTest(name):
                self.assertTrue(page.meta.get("og:title"))
                picture = (file.parent / page.meta["og:image"]).resolve()
                self.assertEqual(b"\x89PNG", picture.read_bytes()[:4])
                self.assertTrue(page.meta.get("og:image:alt"))
        self.assertIn("position", self.pages[HERE / "encodings/rope.html"].meta["og:description"])

    def test_every_public_type_is_in_the_reference(self):
        names = self.inventory("cpp")
        last = {name.rpartition("::")[2] for name in names}
        declared = set()
        for header in ROOT.glob("include/bearing/**/*.hpp"):
            text = re.sub(r"//.*", "", header.read_text(encoding="utf-8"))
            declared |= set(re.findall(r"^(?:struct|class|enum class)(?: BEARING_EXPORT)? (\w+)(?= *[{:])", text, re.M))
            declared |= set(re.findall(r"^BEARING_EXPORT [^()=;]*?\b(\w+)\(", text, re.M))
        self.assertGreater(len(declared), 250)
        self.assertEqual(set(), declared - last - {"operator"})

    def test_every_public_name_of_python_is_in_the_reference(self):
        found = util.find_spec("bearing")
        self.assertIsNotNone(found, "the module must be installed where this test runs")
        import bearing

        names = self.inventory("py")
        public = {f"bearing.{name}" for name in bearing.__all__ if not name.startswith("_")}
        self.assertGreater(len(public), 150)
        self.assertEqual(set(), public - names)

    def test_the_first_page_leads_to_the_newest_version(self):
        self.assertIn(f"url={VERSION}/index.html", (SITE / "index.html").read_text())
        self.assertIn(VERSION, json.loads((SITE / "versions.json").read_text())["versions"])

    def inventory(self, domain):
        found = InventoryFile.loads((HERE / "objects.inv").read_bytes(), uri="")
        return {name for kind, items in found.data.items() if kind.startswith(domain + ":") for name in items}


@unittest.skipIf(chromium.PROGRAM is None, "no Chromium")
class InTheBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(chromium.Browser())
        package = Path(util.find_spec("axe_core_python").origin).parent
        (axe,) = package.rglob("axe.min.js")
        cls.axe = axe.read_text(encoding="utf-8")

    def assert_quiet(self):
        self.assertEqual([], [url for url in self.browser.requests() if not url.startswith(SITE.as_uri())])
        self.assertEqual([], self.browser.complaints())

    def test_pages_open_without_a_request_to_elsewhere(self):
        for name in PAGES:
            with self.subTest(name):
                self.browser.open(HERE / name, 1400)
                self.assert_quiet()
                self.assertNotEqual("", self.browser.ask("document.querySelector('h1').innerText"))

    def test_no_page_scrolls_sideways_on_a_phone(self):
        for name in PAGES:
            for width in (380, 1400):
                with self.subTest(name, width=width):
                    self.browser.open(HERE / name, width)
                    self.assertLessEqual(self.browser.ask("document.documentElement.scrollWidth"), width)

    def found(self, words):
        self.browser.open(HERE / "search.html", 1400, query=f"?q={words}")
        script = """new Promise(done => { const look = n => {
            const found = [...document.querySelectorAll('#search-results li a')].map(a => a.getAttribute('href').split(/[?#]/)[0]);
            n == 0 || (document.querySelector('#search-results .search-summary')?.innerText.match(/found/) && found.length)
                ? done(found) : setTimeout(() => look(n - 1), 100); }; look(50); })"""
        return self.browser.ask(script)

    def test_search_finds_pages_from_a_file(self):
        found = self.found("ALiBi")
        self.assertIn("encodings/alibi.html", found[:5])
        self.assertIn("api/rope.html", self.found("RopeTable"))
        self.assert_quiet()
        self.assertEqual([], self.found("zyzzyva"))

    def test_the_choice_of_versions_lists_them(self):
        self.browser.open(HERE / "encodings/rope.html", 1400)
        shown = self.browser.ask("[...document.querySelectorAll('.versions option')].map(o => o.value)")
        self.assertEqual(json.loads((SITE / "versions.json").read_text())["versions"], shown)

    def test_pages_list_their_headings_and_the_sidebar_all_pages(self):
        for name, least in (("encodings/rope.html", 12), ("api/rope.html", 60), ("guide/attention.html", 8)):
            with self.subTest(name):
                self.browser.open(HERE / name, 1400)
                self.assertGreaterEqual(self.browser.ask("document.querySelectorAll('.toc-tree a').length"), least)
                self.assertGreaterEqual(self.browser.ask("document.querySelectorAll('.sidebar-tree a').length"), 150)

    def test_code_can_be_copied_without_prompts(self):
        self.browser.open(HERE / "project/about.html", 1400)
        self.assertGreater(self.browser.ask("document.querySelectorAll('button.copybtn').length"), 2)

    def test_nothing_serious_for_who_cannot_see_or_hold_a_mouse(self):
        for name in PAGES:
            for dark in (False, True):
                with self.subTest(name, dark=dark):
                    self.browser.open(HERE / name, 1400, dark=dark)
                    self.browser.ask(self.axe + "; 0")
                    asked = (f"axe.run({COLOURS if dark else WHOLE}).then(r => r.violations.map("
                             "v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html)]))")
                    wrong = [one for one in self.browser.ask(asked) if one[0] in ("serious", "critical")]
                    self.assertEqual([], wrong)


if __name__ == "__main__":
    unittest.main()
