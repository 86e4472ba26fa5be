"""R with our package, and a Python that Debian's reticulate can serve."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import waiting
from interop.environments import BUILD, environment, locked

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "r"
LIBRARY = BUILD / "r" / "library"

NUMPY = "numpy==1.26.4"
"""Debian's reticulate was built before NumPy 2. With this NumPy run those engines whose libraries
still take it: all but PyTensor and JAX.
"""
ABSENT = "raise ImportError('left out of the tests of R')\n"
LEFT_OUT = dict.fromkeys(("jax", "sklearn", "matplotlib"), ABSENT)
"""TensorFlow imports JAX where it is installed, which needs NumPy 2, and takes an ImportError for
an answer only. It imports the others by way of Keras, and nothing here needs them.
"""


def rscript() -> str:
    """The path of Rscript.

    Raises:
        AssertionError: if there is none: the tests that need R never skip by themselves.
    """
    found = shutil.which("Rscript")
    assert found, (
        "R is not installed: run `make r` (Debian: apt-get install r-base-core r-cran-reticulate "
        "r-cran-testthat), or leave the tests that need it out with TEST_R=0"
    )
    return found


def python() -> Path:
    """A Python with NumPy 1.26 and, for the rest, what runs the tests."""
    return environment(BUILD / "r" / "python", [NUMPY], **LEFT_OUT)


def library() -> Path:
    """The folder into which our package is installed, anew after each change of it."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*")):
        if file.is_file():
            digest.update(str(file.relative_to(PACKAGE)).encode() + file.read_bytes())
    made = digest.hexdigest()
    stamp = LIBRARY / "stamp"
    with locked(LIBRARY.with_name("library.lock")):
        if not stamp.exists() or stamp.read_text() != made:
            shutil.rmtree(LIBRARY, ignore_errors=True)
            LIBRARY.mkdir(parents=True)
            tool = Path(rscript()).with_name("R")
            install = [tool, "CMD", "INSTALL", f"--library={LIBRARY}", PACKAGE]
            done = waiting.run(install, env=_clean())
            said = done.stdout + done.stderr
            assert done.returncode == 0, said
            assert "warning" not in said.lower(), said
            stamp.write_text(made)
    return LIBRARY


def _clean(**changes: str) -> dict[str, str]:
    """The environment without what would choose another Python, engine or R library."""
    own = ("KERAS_", "RETICULATE_", "R_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(own)}
    return {**kept, **changes}


def run_r(
    folder: Path, *arguments: object, fails: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Rscript in `folder`, with our package in its library and settings of its own.

    Args:
        folder: Where it runs, and keeps `keras.json`.
        arguments: Of Rscript.
        fails: Whether it shall end with an error.
        environment: Variables; `KERAS_PYTHON` is `python()` unless it is given.
    """
    settings = {"KERAS_PYTHON": str(python()), **environment}
    env = _clean(
        R_LIBS_USER=str(library()), KERAS_HOME=str(folder), LC_ALL="C.UTF-8",
        OPENBLAS_NUM_THREADS="1", **settings,
    )  # fmt: skip
    done = waiting.run([rscript(), *map(str, arguments)], env=env, cwd=folder)
    assert (done.returncode != 0) == fails, (done.stdout + done.stderr)[-8000:]
    return done
