"""The programs in the README do on every engine what the README says they do."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import waiting

README = Path(__file__).parents[2] / "README.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_readmes_program_learns(engine, capsys):
    [program] = [text for text in PROGRAMS if "K.gradients" in text]
    exec(compile(program, str(README), "exec"), {})
    accuracies = [float(last) for last in re.findall(r"accuracy (\S+)", capsys.readouterr().out)]
    assert len(accuracies) == 5
    assert accuracies[0] < 0.7
    assert accuracies[-1] > 0.95


def test_the_readmes_model_of_keras_trains(engine, tmp_path):
    [program] = [text for text in PROGRAMS if "keras.Sequential" in text]
    assert '"backplane.cntk"' in program
    program = program.replace("backplane.cntk", f"backplane.{engine.name}")
    done = waiting.run(
        [sys.executable, "-c", program],
        env={**os.environ, "KERAS_HOME": str(tmp_path)},
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [accuracy] = re.findall(r"accuracy (\S+)", done.stdout)
    assert float(accuracy) > 0.9
    assert (tmp_path / "model.onnx").stat().st_size > 0
