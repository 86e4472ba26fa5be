"""Run the conformance suite on NumPy with every Python that the metadata names.

    python scripts/check_pythons.py [ARGUMENTS for pytest]

Pythons are looked for on the PATH as `python3.12` and so on, and among those of pyenv. Each gets an
environment under build/. One that this machine does not have is named, and nothing else happens.
The Python that runs this script is left out: `make test` tests it with all engines.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("pytest", "pytest-xdist", "hypothesis", "scipy", "ml_dtypes", "mpmath")
"""What the tests of the NumPy engine import."""


def versions() -> list[str]:
    """The minor versions in the classifiers: "3.11", …"""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r"Python :: (3\.\d+)", text)


def python(version: str) -> str | None:
    """An interpreter of this version, or None."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    # pyenv puts scripts on the PATH that fail where another version is chosen.
    own = sorted(root.glob(f"{version}.*/bin/python"))
    return str(own[-1]) if own else shutil.which(f"python{version}")


def check(version: str, interpreter: str, arguments: list[str]) -> bool:
    """Whether the conformance suite passes there."""
    folder = ROOT / "build" / f"python{version}"
    environment = folder / "bin" / "python"
    if not environment.exists():
        subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    install = ["-m", "pip", "install", "-q", "-c", "constraints.txt", "-e", ".", *NEEDED]
    subprocess.run([environment, *install], check=True, cwd=ROOT)
    tests = ["-m", "pytest", "-q", "--engines=numpy", *arguments, "tests/conformance"]
    return subprocess.run([environment, *tests], check=False, cwd=ROOT).returncode == 0


def main() -> None:
    """Check all; exits with 1 if one fails."""
    failed = []
    for version in versions():
        interpreter = python(version)
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            continue
        if interpreter is None:
            print(f"Python {version}: not on this machine", flush=True)
            continue
        print(f"Python {version}: {interpreter}", flush=True)
        if not check(version, interpreter, sys.argv[1:]):
            failed.append(version)
    if failed:
        sys.exit(f"conformance fails on Python {', '.join(failed)}")


if __name__ == "__main__":
    main()
