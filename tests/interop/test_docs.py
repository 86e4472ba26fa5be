"""The programs and commands in the documentation of this folder's subjects."""

import os
import re
import sys
from pathlib import Path

import pytest

import waiting
from interop.environments import python_with, run
from lean import lean

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, language):
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language]


@pytest.mark.slow
def test_classic_keras(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(blocks("classic-keras.md", "python")[0])
    printed = run(python_with("2.3.1"), program, backend="backplane.numpy", folder=tmp_path)
    name, accuracy = re.fullmatch(r"(\S+) accuracy (\S+)\n", printed).groups()
    assert name == "backplane.numpy"
    assert float(accuracy) > 0.9


def test_keras_1(tmp_path):
    program = tmp_path / "program.py"
    *_, namespace, train = blocks("old-scripts.md", "python")
    program.write_text(namespace)
    printed = run(Path(sys.executable), program, backend="numpy", folder=tmp_path)
    assert printed.strip() in (DOCS / "old-scripts.md").read_text(encoding="utf-8")
    program.write_text(train)
    printed = run(python_with("1.2.2"), program, backend="numpy", folder=tmp_path)
    assert float(re.fullmatch(r"accuracy (\S+)\n", printed)[1]) > 0.9


def shell(command, folder):
    """What a command prints, with this Python as `python`."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "KERAS_HOME": str(folder)}
    done = waiting.run(command, shell=True, cwd=folder, env=lean(env))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_external_backends(tmp_path):
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    module, extended = blocks("external-backends.md", "python")
    (package / "my_module.py").write_text(module)
    [command] = [b for b in blocks("external-backends.md", "") if "my_package" in b]
    assert shell(command, tmp_path) == "my_package.my_module [9.0]\n"
    (package / "my_module.py").write_text(extended)
    ours = "from backplane import backend as K; print(K.relu(1), K.eval(K.zeros((1,))))"
    command = f'KERAS_BACKEND=my_package.my_module python -c "{ours}"'
    assert shell(command, tmp_path) == "None [0.]\n"


def test_old_scripts(tmp_path):
    (tmp_path / "old.py").write_text(blocks("old-scripts.md", "python")[0])
    [command] = [b for b in blocks("old-scripts.md", "") if "old.py" in b]
    printed = shell(command, tmp_path)
    assert printed == "numpy loss 0.0000 [1. 1. 1.]\n"


@pytest.mark.parametrize(("page", "count"), [("native-tensors.md", 6), ("native-functions.md", 2)])
def test_native_tensors(tmp_path, page, count):
    text = (DOCS / page).read_text(encoding="utf-8")
    promised = re.findall(r"^```\n\nprints `(.*?)`", text, re.MULTILINE)
    programs = blocks(page, "python")
    assert len(programs) == len(promised) == count
    # In one process, one after the other: each library is imported once at most.
    (tmp_path / "page.py").write_text("\n".join(programs))
    printed = shell("python page.py", tmp_path).splitlines()
    assert printed == promised


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "jax", "tensorflow"])
def test_keras_3(tmp_path, backend):
    # In one process, one after the other: Keras and its backend are imported once.
    file = tmp_path / "page.py"
    file.write_text("\n".join(blocks("keras-3.md", "python")))
    printed = run(
        sys.executable, file, backend=backend, folder=tmp_path, PYTHONWARNINGS="ignore"
    )  # fmt: skip
    assert printed == "".join(blocks("keras-3.md", "text"))
