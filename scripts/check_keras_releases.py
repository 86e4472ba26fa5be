"""Runs the programs of the tests of Keras 3 with older releases of Keras, on the NumPy engine.

python scripts/check_keras_releases.py 3.13 3.14

Each release is installed beside the environment, into `build/keras-RELEASE`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "keras3"


def main(releases: list[str]) -> int:
    """Check each release; return the exit status."""
    return max([_checked(release) for release in releases], default=0)


def _checked(release: str) -> int:
    packages = ROOT / "build" / f"keras-{release}"
    work = packages / "work"
    work.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = ["--no-deps", "--upgrade", "--target", str(packages), f"keras=={release}.*"]
    subprocess.run([*pip, *wanted], check=True)
    _run(packages, work, "jax", TESTS / "reference.py", work)
    _run(packages, work, "backplane.numpy", TESTS / "programs.py", work / "found.json", work)
    found = json.loads((work / "found.json").read_text(encoding="utf-8"))
    failed = {name: result["error"] for name, result in found.items() if "error" in result}
    for name, error in failed.items():
        print(f"--- {name}", error, sep="\n")
    print(f"Keras {release}: {len(found) - len(failed)} of {len(found)} programs run")
    return 1 if failed else 0


def _run(packages: Path, work: Path, backend: str, *command: Path) -> None:
    path = os.pathsep.join([str(packages), str(ROOT / "src")])
    settings = {"PYTHONPATH": path, "KERAS_BACKEND": backend, "KERAS_HOME": str(work)}
    subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, command)],
        env={**os.environ, **settings}, cwd=work, check=True,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
