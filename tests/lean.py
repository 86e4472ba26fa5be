"""Processes of Keras without the libraries that they do not need. Keras 3 imports scikit-learn,
Matplotlib and JAX at its start if it finds them, and TensorFlow for random seeds: that is four
fifths of the time of `import keras`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

LARGE = ("sklearn", "matplotlib")
"""Of the programs in the tests only those of the gallery need them."""
OF_ENGINES = ("jax", "tensorflow")
"""Keras needs them where they compute."""
BACKENDS = ("jax", "tensorflow", "torch")
"""Those of Keras itself."""


@cache
def _absent(names: tuple[str, ...]) -> TemporaryDirectory[str]:
    """A folder with modules that cannot be imported; it stays until this process ends."""
    folder = TemporaryDirectory(prefix="backplane-lean-")
    for name in names:
        text = f"raise ImportError('tests/lean.py leaves out {name}')\n"
        Path(folder.name, f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def lean(environment: Mapping[str, str], *needed: str) -> dict[str, str]:
    """The environment for a process that imports Keras on the backend of KERAS_BACKEND. It finds
    none of these libraries but those that are `needed`. Under the plain name of an engine that is
    no backend of Keras, it finds those of all engines.
    """
    package, _, engine = environment["KERAS_BACKEND"].rpartition(".")
    chosen = package or engine in BACKENDS
    left_out = [*LARGE, *(OF_ENGINES if chosen else ())]
    folder = _absent(tuple(name for name in left_out if name not in (engine, *needed))).name
    paths = [folder, *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)}
