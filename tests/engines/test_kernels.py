"""The table of kernels: both forms of each choice give the same, and tables are read with care."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.cli import kernels as measuring
from backplane.compile.program import clear_programs
from backplane.core.spec import Spec
from backplane.engines import kernels
from backplane.engines.kernel_table import LIMITS


class Asked(dict[str, float]):
    """Forced limits, which note who asks for them."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> float:
        self.names.add(name)
        return super().__getitem__(name)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the user's table, which is read anew. What a measurement forces goes with it."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(kernels, "FORCED", {})
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    for cached in (kernels.limits, kernels.users_limits):
        cached.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    for cached in (kernels.limits, kernels.users_limits):
        cached.cache_clear()


def test_every_choice_is_measured_and_in_the_table() -> None:
    assert set(kernels.CHOICES) == set(measuring.CASES) == set(LIMITS)
    assert all(kernels.DTYPES[0] in rows for rows in LIMITS.values())


@pytest.mark.parametrize(
    "choice", [name for name in kernels.CHOICES if engines.installed(name.partition(".")[0])]
)
def test_both_forms_give_the_same(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "FORCED", asked := Asked())
    case = measuring.CASES[choice][0]
    results = []
    with engines.use(choice.partition(".")[0]):
        for limit in (np.inf, 0.0):
            clear_programs()
            with kernels.forced(**{choice.replace(".", "__"): limit}):
                work = case.build(K, kernels.DTYPES[0])
                call = work.function(K, whole=True)
                found = [call() for _ in range(3)][-1]
            results.append([*found, *[K.get_value(x) for x, _ in work.updates]])
    clear_programs()
    assert choice in asked.names
    assert results[0]
    for below, above in zip(*results, strict=True):
        scale = np.abs(below).max()
        np.testing.assert_allclose(above, below, rtol=1e-4, atol=1e-4 * scale)


def test_products_with_few_columns_on_a_tape() -> None:
    torch = pytest.importorskip("torch")
    linear = importlib.import_module("backplane.engines.torch.linear")
    x, y = (torch.rand(30, n, requires_grad=True) for n in (40, 5))
    params = {"transpose_x": True, "transpose_y": False}
    for added in ([], [torch.rand(5)], [torch.rand(40, 5)]):
        entry = linear.TABLE["matmul_add" if added else "matmul"]
        specs = [Spec(tuple(z.shape), "float32") for z in (x, y, *added)]
        with kernels.forced(torch__narrow=0.0):
            run = entry.function(specs, **params)
        found, expected = run(x, y, *added), sum(added, x.T @ y)
        torch.testing.assert_close(found, expected)
        slopes = [torch.autograd.grad(z.sin().sum(), [x, y]) for z in (found, expected)]
        torch.testing.assert_close(*slopes)
        with torch.no_grad():
            out = torch.empty(40, 5)
            assert run(x, y, *added, out=out) is out
            torch.testing.assert_close(out, expected)


def test_the_form_follows_the_limit() -> None:
    """The quantity of a case is what is compared: if the limit is more, the other form serves."""
    case = measuring.CASES["numpy.blocks"][0]
    texts = []
    with engines.use("numpy"):
        for limit in (case.quantity, case.quantity + 1):
            clear_programs()
            with kernels.forced(numpy__blocks=limit):
                function = K.function([], case.build(K, "float32").outputs)
                function([])
                texts.append(function.source())
    clear_programs()
    assert "for i in range(0, len(" in texts[0]
    assert "for i in range(0, len(" not in texts[1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting"),
        ("[]", "version"),
        ('{"version": 0}', "version"),
        ('{"version": 1, "choices": 5}', "choices are no object"),
        ('{"version": 1, "choices": {"torch.wind": {"float32": 1}}}', "no choice 'torch.wind'"),
        ('{"version": 1, "choices": {"torch.windows": {"float64": 1}}}', "no limit for float32"),
        ('{"version": 1, "choices": {"torch.windows": {"float32": -1}}}', "no number from 0 on"),
        ('{"version": 1, "choices": {"torch.windows": {"float32": "2"}}}', "no number from 0 on"),
    ],
)
def test_a_broken_table_is_refused_by_name(home: Path, text: str, reason: str) -> None:
    (home / kernels.FILE).write_text(text)
    with pytest.raises(ValueError, match=reason) as caught:
        kernels.limit("torch.windows")
    assert str(home / kernels.FILE) in str(caught.value)
    assert "backplane bench --kernels" in str(caught.value)


def test_a_table_that_is_named_must_be_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.VARIABLE, str(home / "none.json"))
    with pytest.raises(ValueError, match=r"none\.json is not a table of kernels"):
        kernels.limit("torch.windows")
    (home / "none.json").write_text('{"version": 1}')
    row = {"limit": 5.0, "measured": []}
    assert measuring.write({"torch.windows": {"float32": row}}) == str(home / "none.json")
    assert kernels.limit("torch.windows") == 5


def test_the_users_limits_come_before_ours(home: Path) -> None:
    rows = {"torch.windows": {"float32": {"limit": None, "measured": []}, "float64": 3}}
    (home / kernels.FILE).write_text(json.dumps({"version": 1, "choices": rows}))
    assert kernels.limit("torch.windows") == np.inf
    assert kernels.limit("torch.windows", "float64") == 3
    assert kernels.limit("torch.windows", "bfloat16") == np.inf
    assert kernels.limit("jax.strided") == LIMITS["jax.strided"]["float32"]
    assert kernels.settled("torch.windows")
    assert not kernels.settled("torch.products")


def test_switched_off_the_plain_form_serves(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.VARIABLE, kernels.OFF)
    assert kernels.limit("torch.windows") == 0.0
    assert kernels.limit("torch.products") == np.inf
    assert kernels.settled("torch.products")
    clear_programs()
    x = K.variable(np.ones((2, 4, 4, 3)))
    assert K.eval(K.conv2d(x, K.ones((3, 3, 3, 1))))[0, 0, 0, 0] == 27
    clear_programs()


def test_without_a_choice_the_first_form_serves() -> None:
    assert kernels.engines_limit("numpy", "blocks") == kernels.limit("numpy.blocks")
    assert kernels.engines_limit("numpy", "loops") == np.inf
    assert kernels.engines_limit("theirs", "blocks") == np.inf


def test_limits_follow_from_measurements() -> None:
    def fitted(*times: tuple[float, float], choice: str = "torch.windows") -> float:
        rows = [["", 10.0**i, *pair] for i, pair in enumerate(times)]
        return measuring.fitted(choice, rows)

    assert fitted((1, 2), (1, 2), (2, 1)) == 32
    assert fitted((1, 2), (1, 2)) == np.inf
    assert fitted((2, 1), (2, 1)) == 0
    assert fitted((1, 1.02), (1, 1), (1.01, 1)) == 0  # Close: the plain form.
    assert fitted((1, 1.02), (1, 1), choice="torch.products") == np.inf
    assert fitted((1, 2), (1.2, 1), (1, 2)) == np.inf


def test_bench_writes_the_users_table(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two engines one after the other, whose choices both stay."""
    from click.testing import CliRunner

    from backplane.cli import main

    def measured(engine: str) -> dict[str, Any]:
        row = {"limit": 8.0, "measured": [["work", 4.0, 1.0, 2.0], ["more", 9.0, 4.0, 3.0]]}
        return {f"{engine}.loops": {"float32": row}}

    monkeypatch.setattr(measuring, "on_engine", measured)
    (home / kernels.FILE).write_text("{")
    for engine in ("cntk", "mlx"):
        command = ["bench", "--kernels", "--engine", engine]
        monkeypatch.setattr(engines, "installed", lambda name: True)
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        assert "a product per step" in result.output
    assert kernels.limit("cntk.loops") == kernels.limit("mlx.loops") == 8
    assert kernels.limit("jax.loops") == LIMITS["jax.loops"]["float32"]


def test_an_engine_is_measured_in_a_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small work: the worker's own sizes take minutes."""
    monkeypatch.setattr(measuring, "SECONDS", 0.0)
    monkeypatch.setattr(measuring, "CASES", {"numpy.blocks": measuring.LOOPS[:2]})
    with engines.use("numpy"):
        found = measuring.measured("numpy", "cpu")
    ((name, rows),) = found.items()
    assert name == "numpy.blocks"
    assert [row[1] for row in rows["float32"]["measured"]] == [4, 16]
    assert measuring.rows_of(found)[0]["serves"] in kernels.CHOICES[name][1:3]
