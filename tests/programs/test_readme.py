"""The programs in the README do on every engine what the README says they do."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import waiting
from lean import lean

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
    env = lean({**os.environ, "KERAS_BACKEND": f"backplane.{engine.name}"})
    del env["KERAS_BACKEND"]  # The program sets it.
    env["KERAS_HOME"] = str(tmp_path)
    done = waiting.run([sys.executable, "-c", program], env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [accuracy] = re.findall(r"accuracy (\S+)", done.stdout)
    assert float(accuracy) > 0.9
    assert (tmp_path / "model.onnx").stat().st_size > 0
