"""The programs of docs/scaling.md on a mesh run, and print what the page says."""

import re
from pathlib import Path

from mesh.processes import free_port, run_all

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"
CPU = {"JAX_PLATFORMS": "cpu"}


def program(heading):
    """The first program below a heading, and what the page says that it prints."""
    text = PAGE.read_text(encoding="utf-8").split(f"# {heading}\n")[1]
    pattern = r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?"
    found = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    return found[1], found[2]


def test_several_devices():
    code, printed = program("Several devices")
    (ended,) = run_all([["-c", code]], CPU, 120)
    assert ended.printed == printed, ended.errors


def test_several_processes(tmp_path):
    code, _ = program("Several processes")
    (tmp_path / "train.py").write_text(code.replace("7410", str(free_port())))
    first, second = run_all([["train.py", str(i)] for i in range(2)], CPU, 120, tmp_path)
    assert (first.code, second.code) == (0, 0), first.output
    assert float(first.printed.splitlines()[-1]) < 9
    load, _ = program("When a process dies")
    before = "from backplane import backend as K\nw = K.variable([[1.0]] * 3, name='w')\n"
    after = "print(K.get_value(w)[0, 0] < 1)"
    (ended,) = run_all([["-c", before + load + after]], {}, 120, tmp_path)
    assert ended.printed == "True\n", ended.output
