"""What tests of `bearing report` share: pages, and a model's file whose words mean something in HTML."""

import json

import page
import support
from support import SMALL, run

GEMMA = "examples/models/gemma-3-4b.json"
SIZES = ["--heads", "2", "--dim", "16", "--length", "64"]
NASTY = "\"'><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>&amp;"


class Base(support.Base):
    """What tests of pages share."""

    def report(self, *arguments, **settings):
        self.file = self.path("report.html")
        result = run("report", *arguments, "-o", self.file, **settings)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        return self.file.read_text()

    def page(self, *arguments, **settings):
        return page.Page(self.report(*arguments, **settings))

    def nasty_model(self):
        """A model's file whose words mean something in HTML, wherever a file may hold words."""
        folder = self.path(NASTY.replace("/", "|"))
        folder.mkdir()
        config = {**SMALL, "model_type": NASTY, "layer_types": ["\"><b>b", "full_attention"],
                  "rope_scaling": {"rope_type": "linear", "factor": 2.0, NASTY: NASTY}, NASTY: NASTY}
        (folder / "config.json").write_text(json.dumps(config))
        return folder
