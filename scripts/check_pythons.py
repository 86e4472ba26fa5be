"""Run the conformance suite on NumPy with every Python that the metadata names.

    python scripts/check_pythons.py [ARGUMENTS for pytest]

Pythons are looked for on the PATH as `python3.12` and so on, and among those of pyenv. Each gets an
environment under build/. One that this machine does not have is named, and nothing else happens.
The Python that runs this script is left out: `make test` tests it with all engines. The others are
checked side by side, each in one process, and what they print comes when they have ended.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
    environment = str(folder / "bin" / "python")
    install = ["-m", "pip", "install", "-q", "--no-compile", "-c", "constraints.txt", "-e", "."]
    # All of them would write the same cache.
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--engines=numpy", *arguments]
    commands = [[environment, *install, *NEEDED], [environment, *tests, "tests/conformance"]]
    if not Path(environment).exists():
        commands.insert(0, [interpreter, "-m", "venv", str(folder)])
    printed, passed = [f"Python {version}: {interpreter}\n"], False
    for command in commands:
        done = subprocess.run(
            command, check=False, cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        printed.append(done.stdout)
        passed = done.returncode == 0
        if not passed:
            break
    print("".join(printed), end="", flush=True)
    return passed


def main() -> None:
    """Check all; exits with 1 if one fails."""
    found = {version: python(version) for version in versions()}
    found.pop(f"{sys.version_info.major}.{sys.version_info.minor}", None)
    for version in [version for version, interpreter in found.items() if interpreter is None]:
        print(f"Python {version}: not on this machine", flush=True)
    there = {version: interpreter for version, interpreter in found.items() if interpreter}
    with ThreadPoolExecutor() as pool:
        passed = pool.map(partial(check, arguments=sys.argv[1:]), there, there.values())
    failed = [version for version, good in zip(there, passed, strict=True) if not good]
    if failed:
        sys.exit(f"conformance fails on Python {', '.join(failed)}")


if __name__ == "__main__":
    main()
