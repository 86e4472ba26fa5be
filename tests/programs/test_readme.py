"""The program in the README does on every engine what the README says it does."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_readmes_program_learns(engine, capsys):
    [program] = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(program, str(README), "exec"), {})
    accuracies = [float(last) for last in re.findall(r"accuracy (\S+)", capsys.readouterr().out)]
    assert len(accuracies) == 5
    assert accuracies[0] < 0.7
    assert accuracies[-1] > 0.95
