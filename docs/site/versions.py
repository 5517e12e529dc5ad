"""Writes what lies beside the versions' folders: versions.py SITE VERSION. index.html leads to VERSION, the newest."""

import json
import sys
from pathlib import Path


def main(site: Path, newest: str) -> None:
    folders = [folder for folder in site.iterdir() if (folder / "objects.inv").exists()]
    folders.sort(key=lambda folder: [int(part) for part in folder.name.split(".")], reverse=True)
    versions = [{"name": folder.name, "pages": sorted(str(page.relative_to(folder)) for page in folder.rglob("*.html"))}
                for folder in folders]
    (site / "versions.json").write_text(json.dumps({"newest": newest, "versions": [one["name"] for one in versions]}) + "\n")
    (site / "versions.js").write_text(f"window.bearingVersions = {json.dumps(versions, separators=(',', ':'))};\n")
    (site / "index.html").write_text(
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>bearing {newest}</title>\n'
        f'<meta http-equiv="refresh" content="0; url={newest}/index.html">\n</head>\n'
        f'<body><p><a href="{newest}/index.html">bearing {newest}</a></p></body>\n</html>\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
