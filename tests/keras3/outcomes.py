"""The outcomes of programs with Keras 3, which has one backend in a process."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from interop.environments import locked, run

HERE = Path(__file__).parent
ON_BACKPLANE = (
    "programs", "training_programs", "user_programs", "eager_programs", "export_programs",
)  # fmt: skip
KERAS_ON_JAX = "keras-on-jax"
"""The place of Keras' own backend, whose numbers are the expected ones."""
ON_JAX = ("reference", "training_programs")


def names(module: str, table: str = "PROGRAMS") -> list[str]:
    """The names of a module's programs. To import it would import Keras."""
    text = (HERE / f"{module}.py").read_text(encoding="utf-8")
    listed = re.search(rf"^{table} = \[(.*?)\]", text, re.DOTALL | re.MULTILINE)
    assert listed
    return re.findall(r"\w+", listed[1])


class Outcomes:
    """What the programs of modules return, by module and place. All modules run in one process for
    each place, once for all test processes, which share a folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, module: str, place: str) -> dict[str, Any]:
        """By the names of programs: their values, or their errors. A place is an engine, or
        `KERAS_ON_JAX`.
        """
        folder = self.folder / place
        if place != KERAS_ON_JAX:
            self("reference", KERAS_ON_JAX)  # Its models go on training.
        modules = ON_JAX if place == KERAS_ON_JAX else ON_BACKPLANE
        with locked(folder.with_suffix(".lock")):
            if not (folder / f"{modules[-1]}.json").exists():
                folder.mkdir(exist_ok=True)
                for model in (self.folder / KERAS_ON_JAX).glob("*.keras"):
                    shutil.copyfile(model, folder / model.name)
                run(
                    sys.executable, HERE / "run.py", *modules,
                    backend="jax" if place == KERAS_ON_JAX else f"backplane.{place}",
                    folder=folder, PYTHONWARNINGS="ignore",
                )  # fmt: skip
        found: dict[str, Any] = json.loads((folder / f"{module}.json").read_text())
        return found

    def value(self, module: str, program: str, place: str) -> Any:
        """The result of a program, which has not failed."""
        found = self(module, place)[program]
        assert "value" in found, found["trace"]
        return found["value"]
