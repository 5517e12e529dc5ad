"""The glossary's words stand in order, each with a link to where it is used: glossary_test.py."""

import re
import unittest

from page_parts import ROOT


class Glossary(unittest.TestCase):
    def test_words_stand_in_order_and_lead_to_their_use(self):
        text = (ROOT / "docs/guide/glossary.md").read_text(encoding="utf-8")
        words = re.findall(r"^### (.+)\n\n((?:(?!#).*\n?)*)", text.split("\n## Words\n")[1], re.M)
        self.assertGreaterEqual(len(words), 60)
        names = [re.sub(r"[^a-z0-9]", "", name.lower()) for name, _ in words]
        self.assertEqual(names, sorted(names))
        for name, told in words:
            self.assertIn("](", told, f"{name}: must have a link to where it is used")


if __name__ == "__main__":
    unittest.main()
