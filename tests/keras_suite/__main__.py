"""Run Keras' own tests, those in the installed wheel, on Backplane.

    python -m tests.keras_suite ENGINE [--all] [PATH …] [options of pytest]

PATH is relative to `keras/src`, such as `ops/numpy_test.py`, `layers/core` or a node id like
`ops/math_test.py::MathOpsCorrectnessTest`; without one the whole suite runs. `--write FILE` writes
the outcome of every test as JSON. `--all` runs the excluded tests too, and `--every 10` runs only
every tenth test: a sample of all functions. Everything else goes to pytest: `-k`, `-x`, `-n 2`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent


def keras_folder() -> Path:
    """The folder `keras/src` of the installed Keras, which is not imported."""
    spec = importlib.util.find_spec("keras")
    assert spec is not None, "Keras is not installed"
    assert spec.origin is not None
    return Path(spec.origin).parent / "src"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.keras_suite", description=__doc__)
    parser.add_argument("engine")
    parser.add_argument("--all", action="store_true", help="run the excluded tests too")
    parser.add_argument("--write", default="", help="file for the outcomes, as JSON")
    parser.add_argument("--every", type=int, default=1, help="run every n-th test only")
    known, rest = parser.parse_known_args(arguments)
    os.environ["KERAS_BACKEND"] = f"backplane.{known.engine}"
    os.environ["KERAS_SUITE_ENGINE"] = known.engine
    os.environ["KERAS_SUITE_ALL"] = "1" if known.all else ""
    os.environ["KERAS_SUITE_EVERY"] = str(known.every)
    os.environ["KERAS_SUITE_WRITE"] = str(Path(known.write).absolute()) if known.write else ""
    sys.path.insert(0, str(HERE))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    source = keras_folder()
    paths = [str(source / a) if (source / a.partition("::")[0]).exists() else a for a in rest]
    if not any(a.startswith(str(source)) for a in paths):
        paths.append(str(source))
    import pytest

    config = HERE / "pytest.ini"
    return int(
        pytest.main(["-c", str(config), "--rootdir", str(source), "-p", "keras_plugin", *paths])
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
