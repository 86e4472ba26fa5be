"""The oldest releases that pyproject.toml allows, as arguments for pip.

python scripts/oldest.py check
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def main() -> None:
    """Print a requirement for each dependency, and for those of the extras that are named."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in sys.argv[1:]:
        wanted += project["optional-dependencies"][extra]
    print(*[re.sub(r">=", "==", requirement) for requirement in wanted])


if __name__ == "__main__":
    main()
