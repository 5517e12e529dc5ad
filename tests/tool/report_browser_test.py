"""Tests of the pages of `bearing report` in headless Chromium: what they ask for, complain of, and look like."""

import os
import sys
import unittest

import chromium
import reports
from reports import GEMMA, SIZES
from support import LLAMA

# Elements that reach over the page's edge; what an SVG holds is cut by it.
WIDER = """[...document.querySelectorAll("body *")].filter(one => !one.closest("svg > *") && !one.matches(".skip") &&
one.getClientRects().length && one.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
.map(one => one.outerHTML.slice(0, 80))"""

# The least contrast of visible words with their ground, as WCAG 2 defines it, outside of matrices.
CONTRAST = """(() => {
  const light = colour => { const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = one => { for (; one; one = one.parentElement) { const colour = getComputedStyle(one).backgroundColor;
    if (!colour.endsWith(", 0)")) return colour; } return "rgb(255, 255, 255)"; };
  const words = [...document.querySelectorAll("h1, h2, h3, p, li, dt, dd, th, td, figcaption, a, button, summary, svg text")];
  return Math.min(...words.filter(one => one.getClientRects().length).map(one => {
    const style = getComputedStyle(one), ink = one.closest("svg") ? style.fill : style.color;
    const [low, high] = [light(ink), light(ground(one))].sort((a, b) => a - b); return (high + 0.05) / (low + 0.05); }));
})()"""


class ReportInBrowser(reports.Base):
    """With Chromium (Debian's package chromium); without it these tests are counted as skipped by ctest."""

    def setUp(self):
        if chromium.PROGRAM is None:
            print("\nNOT TESTED: no chromium is installed, pages are not opened in a browser\n", file=sys.stderr, flush=True)
            os._exit(77)
        super().setUp()
        browser = chromium.Browser()
        self.browser = browser.__enter__()
        self.addCleanup(browser.__exit__)

    def reports(self):
        for arguments in ([LLAMA, *SIZES], ["rope", "alibi", "t5", GEMMA, "learned", *SIZES]):
            self.report(*arguments)
            yield arguments

    def expect_quiet(self):
        self.assertEqual((self.browser.requests(), self.browser.complaints()), ([], []))

    def test_a_report_fits_telephones_and_screens_and_asks_for_nothing(self):
        for arguments in self.reports():
            for width in (320, 380, 700, 1400):
                with self.subTest(arguments=arguments[0], width=width):
                    self.browser.open(self.file, width)
                    self.expect_quiet()
                    self.assertEqual(self.browser.ask(WIDER), [])
                    self.assertLessEqual(self.browser.ask("document.documentElement.scrollWidth"), width)
                    shown = "[...document.querySelectorAll('figure')].map(one => [...one.querySelectorAll('svg')]" \
                            ".filter(svg => svg.getClientRects().length).length)"
                    self.assertEqual(set(self.browser.ask(shown)), {1})
                    small = "Math.min(...[...document.querySelectorAll('svg text')].filter(one => " \
                            "one.getClientRects().length).map(one => one.getBoundingClientRect().height))"
                    self.assertGreater(self.browser.ask(small), 8)

    def test_words_are_read_on_dark_and_on_light(self):
        for arguments in self.reports():
            for dark in (False, True):
                with self.subTest(arguments=arguments[0], dark=dark):
                    self.browser.open(self.file, 1400, dark)
                    self.expect_quiet()
                    self.assertGreaterEqual(self.browser.ask(CONTRAST), 4.5)
                    ground = self.browser.ask("getComputedStyle(document.body).backgroundColor")
                    self.assertEqual(ground, "rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")

    def test_a_report_prints_black_on_white_with_whole_pictures(self):
        self.report(LLAMA, *SIZES)
        self.browser.open(self.file, 800, dark=True, media="print")
        self.assertEqual(self.browser.ask("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        inks = "[...new Set([...document.querySelectorAll('h1, h2, p, td, svg text')].filter(one => " \
               "one.getClientRects().length).map(one => { const style = getComputedStyle(one); " \
               "return one.closest('svg') ? style.fill : style.color; }))]"
        self.assertEqual(self.browser.ask(inks), ["rgb(0, 0, 0)"])
        breaks = "[...new Set([...document.querySelectorAll('figure')].map(one => getComputedStyle(one).breakInside))]"
        self.assertEqual(self.browser.ask(breaks), ["avoid"])
        self.assertTrue(self.browser.printed().startswith(b"%PDF"))

    def test_a_heading_sorts_the_comparison(self):
        self.report("rope", "alibi", "learned", "t5", *SIZES, "--no-pictures")
        self.browser.open(self.file, 1400)
        column = "[...document.querySelectorAll('table.sortable tbody tr')].map(row => row.cells[{}].textContent)"
        sort = "document.querySelectorAll('table.sortable thead button')[{}].click()"
        learned = ["-", "-", "64", "1,024"]
        self.browser.ask(sort.format(2))
        self.assertEqual(self.browser.ask(column.format(2)), learned)
        self.browser.ask(sort.format(2))
        self.assertEqual(self.browser.ask(column.format(2)), learned[::-1])
        self.browser.ask(sort.format(0))
        self.assertEqual(self.browser.ask(column.format(0)), ["alibi", "learned", "rope", "t5"])
        marks = "[...document.querySelectorAll('table.sortable thead th')].map(one => one.getAttribute('aria-sort'))"
        self.assertEqual(self.browser.ask(marks), ["ascending"] + [None] * 7)
        self.expect_quiet()

    def test_what_a_file_says_does_nothing_in_a_browser(self):
        self.report(self.nasty_model(), "rope", *SIZES)
        self.browser.open(self.file, 1400)
        self.expect_quiet()
        self.assertEqual(self.browser.ask("typeof window.broken"), "undefined")


if __name__ == "__main__":
    unittest.main()
