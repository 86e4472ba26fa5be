"""Run the programs of the gallery, and keep their pictures and what they print for the site.

    python scripts/make_gallery.py [NAME …]

Writes NAME.png and NAME.txt into docs/pictures/gallery. All together take some minutes, so the site
is built from what is kept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "pictures" / "gallery"
ENGINE = "jax"


def run(example: Path) -> None:
    """Run one program to its end."""
    environment = {**os.environ, "KERAS_BACKEND": ENGINE, "MPLBACKEND": "agg"}
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / f"{example.stem}.png"
        done = subprocess.run(
            [sys.executable, str(example), "--out", str(picture)],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        shutil.copy(picture, KEPT)
    (KEPT / f"{example.stem}.txt").write_text(done.stdout, encoding="utf-8")


def main() -> None:
    """Run all programs, or those that are named."""
    for example in sorted((ROOT / "examples" / "gallery").glob("*.py")):
        if not sys.argv[1:] or example.stem in sys.argv[1:]:
            print(example.stem, flush=True)
            run(example)


if __name__ == "__main__":
    main()
