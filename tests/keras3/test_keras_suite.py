"""A fixed sample of Keras' own tests, from the installed wheel, on Backplane.

`python -m tests.keras_suite ENGINE` runs all of them.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import waiting
from lean import lean

ROOT = Path(__file__).parents[2]
SAMPLE = [
    "layers/core/dense_test.py", "layers/rnn/lstm_test.py", "optimizers/adam_test.py",
    "layers/normalization/batch_normalization_test.py", "callbacks/early_stopping_test.py",
    "saving/saving_api_test.py",
]  # fmt: skip
TRAINERS = ["trainers/trainer_test.py"]
SMALL = ["layers/core/dense_test.py", "layers/rnn/gru_test.py", "optimizers/sgd_test.py"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "files", "needed"),
    [
        ("numpy", SAMPLE, []), ("numpy", TRAINERS, ["jax", "tensorflow"]),
        ("cntk", SMALL, []), ("torch", SMALL, []),
    ],
)  # fmt: skip
def test_a_sample_of_keras_own_tests(backend, files, needed, tmp_path):
    """Where Keras finds TensorFlow, each test sets its random seed too, and imports what uses it:
    that is half of the time.
    """
    done = waiting.run(
        [sys.executable, "-m", "tests.keras_suite", backend, *files, "--tb=short"],
        env=lean({
            **os.environ, "KERAS_BACKEND": f"backplane.{backend}", "KERAS_HOME": str(tmp_path),
        }, *needed),
        cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    found = re.search(r"(\d+) passed", done.stdout)
    assert found, done.stdout
    assert int(found[1]) >= 20
