"""The checks of imports, primitives, sizes and results: what they let pass, and what not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import waiting

SCRIPTS = Path(__file__).parents[2] / "scripts"


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_imports = script("check_imports")
check_primitives = script("check_primitives")
check_size = script("check_size")
count_lines = script("count_lines")


@pytest.fixture
def package(tmp_path):
    """A package with the layout of ours, every module empty."""
    root = tmp_path / "backplane"
    for name in [
        "__init__", "config", "cli", "_keras_json", "core/__init__", "core/graph", "ops/__init__",
        "ops/lift", "compile/__init__", "compile/emit", "backend/__init__", "interop/__init__",
        "engines/__init__", "engines/base", "engines/jax/__init__", "engines/jax/loops",
        "engines/torch/__init__", "engines/onnxruntime/__init__",
    ]:  # fmt: skip
        file = root / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return root


ALLOWED = [
    ("core/graph", "import numpy, backplane.core.spec"),
    ("ops/lift", "from backplane.core.graph import Tensor"),
    ("compile/emit", "from backplane.core import graph"),
    ("compile/emit", "from backplane.ops import lift"),
    ("compile/emit", "from backplane.engines.base import Entry"),
    ("compile/emit", "from backplane import engines"),
    ("backend/__init__", "from backplane import config, engines\nfrom backplane.ops import lift"),
    ("backend/__init__", "import backplane.compile.codegen.programs, backplane.core"),
    ("interop/__init__", "import keras\nfrom backplane import backend as K"),
    ("cli", "from backplane import backend, config, interop"),
    ("config", "from backplane import _keras_json as keras_json"),
    ("engines/__init__", "from backplane import config\nfrom backplane.engines.base import Engine"),
    ("engines/jax/loops", "import jax.numpy as jnp\nfrom jaxlib import x\nfrom . import y"),
    ("engines/jax/loops", "from backplane.engines.jax import z\nimport backplane.engines.base"),
    ("engines/onnxruntime/__init__", "import onnx, onnxruntime"),
]

FORBIDDEN = [
    ("core/graph", "import backplane.ops"),
    ("core/graph", "from backplane import config"),
    ("core/graph", "from ..ops import lift"),
    ("ops/lift", "def f():\n    from backplane import config"),
    ("core/graph", "if TYPE_CHECKING:\n    from backplane.engines.base import Engine"),
    ("core/graph", "import importlib\nimportlib.import_module('backplane.engines')"),
    ("ops/lift", "from backplane import compile"),
    ("ops/lift", "def f():\n    from backplane.engines.base import Engine"),
    ("ops/lift", "import backplane.backend"),
    ("compile/emit", "import backplane.engines.jax"),
    ("compile/emit", "from backplane import backend as K"),
    ("backend/__init__", "from backplane.engines.jax.loops import scan"),
    ("backend/__init__", "from backplane import interop"),
    ("backend/__init__", "def f():\n    import torch"),
    ("interop/__init__", "from backplane import cli"),
    ("interop/__init__", "import tensorflow"),
    ("config", "from backplane import backend"),
    ("engines/__init__", "from backplane.backend import gradients"),
    ("engines/base", "from backplane import config"),
    ("engines/base", "import torch"),
    ("engines/jax/loops", "from backplane.ops import lift"),
    ("engines/jax/loops", "import backplane.compile.codegen.programs"),
    ("engines/jax/loops", "from backplane import backend"),
    ("engines/jax/loops", "from backplane import config"),
    ("engines/jax/loops", "from backplane.engines.torch import scan"),
    ("engines/jax/loops", "import torch"),
    ("engines/torch/__init__", "from jax import numpy"),
    ("__init__", "import jax"),
    ("backend/__init__", "import keras"),
    ("widgets", "from backplane import core"),
]


@pytest.mark.parametrize(("module", "source"), ALLOWED)
def test_allowed_imports_pass(package, module, source):
    (package / f"{module}.py").write_text(source)
    assert check_imports.main([str(package)]) == 0


@pytest.mark.parametrize(("module", "source"), FORBIDDEN)
def test_forbidden_imports_are_named_with_file_and_line(package, module, source, capsys):
    file = package / f"{module}.py"
    file.write_text(source)
    assert check_imports.main([str(package)]) == 1
    line = len(source.splitlines())
    assert capsys.readouterr().out.startswith(f"{file}:{line}: imports ")


def test_a_folder_without_files_does_not_pass(tmp_path):
    assert check_imports.main([str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("lines", "status", "said"), [(40, 0, "none too long"), (45, 0, "warning"), (46, 1, "error")]
)
def test_length_of_functions(tmp_path, capsys, lines, status, said):
    body = ['    """What\n\n    it does.\n    """', *["    pass"] * (lines - 1)]
    (tmp_path / "a.py").write_text("\n".join(["@cache", "def f():", *body]))
    assert check_size.main([str(tmp_path)]) == status
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "status", "said"), [(400, 0, "none too long"), (450, 0, "warning"), (451, 1, "error")]
)
def test_length_of_files(tmp_path, capsys, lines, status, said):
    (tmp_path / "a.py").write_text("x = 1\n" * lines)
    assert check_size.main([str(tmp_path)]) == status
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": [1, 2]}', []),
        ('{"a": 1}\n=======\n{"a": 2}', ["latest.json: not JSON: Extra data: line 2"]),
        ('<<<<<<< HEAD\n{"a": 1}', ["latest.json: not JSON: Expecting value: line 1"]),
        ('{"a": NaN}', ["latest.json: not JSON: NaN is no number of JSON"]),
    ],
)
def test_results_of_benchmarks_are_json(tmp_path, monkeypatch, text, said):
    monkeypatch.syspath_prepend(SCRIPTS)
    (tmp_path / "latest.json").write_text(text)
    found = list(script("generate").unreadable(tmp_path))
    assert len(found) == len(said)
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True))


# --- circles, primitives, lines of code -----------------------------------------------------------


@pytest.mark.parametrize("indent", ["", "if TYPE_CHECKING:\n    ", "def f():\n    "])
def test_circles_of_modules_are_named(package, capsys, indent):
    (package / "core/graph.py").write_text("from backplane.core import spec\n")
    (package / "core/spec.py").write_text(f"{indent}from backplane.core.graph import Tensor\n")
    assert check_imports.main([str(package)]) == 1
    assert "backplane.core.graph, backplane.core.spec" in capsys.readouterr().out


@pytest.mark.parametrize("indent", ["", "if TYPE_CHECKING:\n    ", "def f():\n    "])
def test_circles_of_folders_are_named(package, capsys, indent):
    for name in ("passes", "codegen"):
        (package / "compile" / name).mkdir(exist_ok=True)
        (package / "compile" / name / "__init__.py").touch()
    (package / "compile/codegen/a.py").write_text("from backplane.compile.passes import b\n")
    (package / "compile/codegen/c.py").touch()
    (package / "compile/passes/b.py").touch()
    assert check_imports.main([str(package)]) == 0
    (package / "compile/passes/b.py").write_text(f"{indent}import backplane.compile.codegen.c\n")
    assert check_imports.main([str(package)]) == 1
    assert "backplane.compile.codegen, backplane.compile.passes" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        'y = PRIMITIVES["tanh"](x)',
        'y = registry.primitive("tanh")(x)',
        'y = apply("matmul", a, b)',
        'yes = node.op is not None and node.op.name == "dim"',
        'yes = op.name in ("add", "sub")',
        'name = node.op.name\nyes = name == "neg"',
        'SOME = frozenset(("neg", "abs", "sign"))',
        'RULES = {"neg": f, "abs": g, "sign": h}',
    ],
)
def test_a_primitive_named_by_a_string_is_found(tmp_path, capsys, text):
    file = tmp_path / "pass.py"
    file.write_text(f'"""A module."""\n{text}\n')
    assert check_primitives.main([str(tmp_path)]) == 1
    assert f"{file}:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "yes = node.op is matmul",
        "entry = table[node.op.name]",
        'raise ValueError(f"no lowering for {node.op.name!r}")',
        'yes = padding == "same"',
        'MODES = ("max", "mean", "ave")',
    ],
)
def test_primitives_that_are_objects_pass(tmp_path, text):
    (tmp_path / "pass.py").write_text(text)
    assert check_primitives.main([str(tmp_path)]) == 0


def test_blank_lines_comments_and_docstrings_are_no_code(tmp_path, capsys):
    text = (
        '"""A module."""\n\n# why\nx = f(\n    1,\n)\n\n\ndef g():\n    """Says."""\n    return x\n'
    )
    assert count_lines.lines_of_code(text) == 5
    (tmp_path / "a.py").write_text(text)
    assert count_lines.main([str(tmp_path), "--most", "5"]) == 0
    assert count_lines.main([str(tmp_path), "--most", "4"]) == 1
    assert "5 in all, 4 at most" in capsys.readouterr().out


def test_all_derived_files_are_up_to_date():
    check = [sys.executable, SCRIPTS / "generate.py", "--check"]
    done = waiting.run(check)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
