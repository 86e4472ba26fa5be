"""Build the packages into dist/ and check them.

    python scripts/make_dist.py

Builds the source distribution, and from it the wheel, in environments of their own and once more in
the one that runs this script, and compares them byte for byte.
Checks the metadata and the wheel's contents with the usual tools. Installs the wheel into an
environment of its own, and runs the README's program there. Where R is installed, builds and checks
the R package.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
EPOCH = "1577836800"
"""The time that every file in the packages has: they are the same whenever they are built."""


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def built(folder: Path, *options: str) -> dict[str, str]:
    """File name → digest of each file that a build puts into a folder."""
    run(sys.executable, "-m", "build", *options, "--outdir", folder, ROOT)
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def check_contents(sdist: Path, wheel: Path) -> None:
    """Nothing is missing from the packages, and the wheel has no tests."""
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    tracked = run("git", "ls-files").split("\n")
    needed = {name for name in tracked if name and not name.startswith(".")}
    if missing := sorted(needed - packed):
        sys.exit(f"the source distribution lacks {', '.join(missing)}")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {n.removeprefix("src/") for n in tracked if n.startswith("src/")}
    pages = {n for n in tracked if re.match(r"docs/.*\.md$|examples/.*\.py$", n)}
    sources |= {f"backplane/{name}" for name in pages}
    if missing := sorted(sources - names):
        sys.exit(f"the wheel lacks {', '.join(missing)}")
    if strange := sorted(n for n in names - sources if ".dist-info/" not in n):
        sys.exit(f"the wheel has {', '.join(strange)}")


def check_wheel(wheel: Path) -> None:
    """The README's program in K runs where only the wheel and NumPy are installed."""
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    [program] = [text for text in programs if "K.gradients" in text]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder)
        scripts = Path(folder) / ("Scripts" if os.name == "nt" else "bin")
        python = scripts / "python"
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python]
        run(*pip, "install", "-c", ROOT / "constraints.txt", wheel)
        alone = {"KERAS_HOME": folder, "KERAS_BACKEND": "numpy", "PYTHONPATH": ""}
        print(run(python, "-c", program, cwd=Path(folder), **alone).splitlines()[-1])
        for command in ("explain conv2d", "docs debugging", "examples deep_dream"):
            run(scripts / "backplane", *command.split(), cwd=Path(folder), **alone)


def check_r() -> None:
    """R's own check finds no error, no warning, and no note but on what is not on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        run("R", "CMD", "build", ROOT / "r", cwd=Path(folder))
        [package] = Path(folder).glob("*.tar.gz")
        said = run("R", "CMD", "check", "--no-manual", "--no-tests", package, cwd=Path(folder))
        shutil.copy(package, DIST)
    print(said.strip().splitlines()[-1])
    if re.search(r"(WARNING|NOTE|ERROR)s?\s*$", said, re.MULTILINE):
        sys.exit(said)


def main() -> None:
    """Build, compare, check."""
    shutil.rmtree(DIST, ignore_errors=True)
    first = built(DIST)
    with tempfile.TemporaryDirectory() as folder:
        second = built(Path(folder), "--no-isolation")
    if first != second:
        sys.exit(f"two builds differ: {first}, {second}")
    [sdist], [wheel] = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    check_contents(sdist, wheel)
    check_wheel(wheel)
    if shutil.which("R"):
        check_r()
    for path in sorted(DIST.iterdir()):
        print(f"dist/{path.name}  {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
