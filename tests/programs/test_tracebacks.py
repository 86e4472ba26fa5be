"""Tracebacks end at the user's line, in whatever shows them."""

from __future__ import annotations

import inspect
import os
import pdb
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane.core.context import is_ours
from backplane.core.tracebacks import SETTING

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have it: `conftest.py` asks for full tracebacks."""
    monkeypatch.delenv(SETTING)


def fed(*values: Any) -> Any:
    x, y = K.placeholder((None, 2)), K.placeholder((None, 2))
    total = K.variable([[1.0, 1.0]])
    f = K.function([x, y], [x + y], updates=[K.update_add(total, [[1.0, 1.0]])])
    return lambda: f(list(values))


def called_again() -> None:
    x = K.placeholder((None, 2))
    f = K.function([x], [K.sum(x)])
    f([np.ones((3, 2))])
    f([np.ones((3, 3))])


def reading_variables() -> None:
    x, w = K.placeholder((None,)), K.variable([1.0, 2.0])
    f = K.function([x], [x * w])
    f([np.ones(2)])
    f([np.ones(3)])


def single() -> None:
    x = K.placeholder((2,))
    K.function(x, x * 2)(np.ones(3))


def truth() -> None:
    if K.placeholder((2,)):
        pass


def debugged() -> None:
    x = K.placeholder((2,))
    f = K.function([x], [K.log(x)])
    with K.debug():
        f([[1.0, 0.0]])


CALLS: dict[str, Callable[[], Any]] = {
    "api": lambda: K.dot(K.placeholder((None, 2)), K.ones((3, 1))),
    "at once": lambda: K.dot(np.ones((2, 3)), np.ones((4, 5))),
    "at once, no tensor": lambda: K.sum(object()),
    "nested": lambda: K.batch_normalization(K.ones((2,)), None, None, None, None),
    "keywords": lambda: K.sum(K.ones((2,)), axes=3),
    "creates": lambda: K.zeros("three"),
    "variable": lambda: K.variable(object()),
    "explained": lambda: K.set_epsilon("small"),
    "gradients": lambda: K.gradients(3, 4),
    "function": lambda: K.function([3], [4]),
    "eval": lambda: K.eval(K.placeholder((2,)) * 2),
    "load_state": lambda: K.load_state("nowhere.npz", {}),
    "map": lambda: K.function([], []).map(3),
    "in_buckets": lambda: K.function([], []).in_buckets("big"),
    "profile": lambda: K.function([], []).profile(1),
    "to_onnx": lambda: K.function([], []).to_onnx("model.onnx", outputs=["y"]),
    "debug": debugged,
    "operator": lambda: K.ones((2,)) + K.ones((3,)),
    "reflected": lambda: np.ones(2) + K.ones((3,)),
    "list": lambda: [1, 2] * K.ones((3,)),
    "index": lambda: K.ones((2,))[5],
    "comparison": lambda: K.ones((2,)) < K.ones((3,)),
    "attribute": lambda: K.ones((2,)).foo,
    "truth": truth,
    "iteration": lambda: list(K.placeholder((None, 2))),
    "float": lambda: float(K.placeholder(())),
    "ufunc": lambda: np.add(K.ones((2,)), K.ones((3,))),
    "array function": lambda: np.concatenate([K.ones((2,)), K.ones((3, 3))]),
    "number of values": fed(1),
    "no list": lambda: fed()().f(3),
    "feed": fed(np.ones((2, 2)), np.ones((2, 3))),
    "program": fed(np.ones((2, 2)), np.ones((3, 2))),
    "second call": called_again,
    "variables": reading_variables,
    "single value": single,
}


def files(trace: Any) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(trace)]


@pytest.mark.parametrize("name", CALLS)
def test_the_last_frame_is_the_users(engine: object, name: str) -> None:
    with pytest.raises(
        (ValueError, TypeError, AttributeError, OSError, IndexError, FloatingPointError)
    ) as caught:
        CALLS[name]()
    shown = files(caught.value.__traceback__)
    assert [Path(file).name for file in shown] == [HERE] * len(shown)
    if caught.value.__cause__ is not None:
        assert not any(map(is_ours, files(caught.value.__cause__.__traceback__)))


def needed(function: Any) -> int:
    """How many arguments a function must get by position."""
    if not callable(function):
        return 0
    parameters = inspect.signature(function).parameters.values()
    return sum(p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD for p in parameters)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", ["x", -3.5, {"a": 1}, object(), None], ids=type)
def test_no_function_of_k_shows_its_frames(value: object) -> None:
    """Each is called with what it cannot use, and entered if it is a context manager."""
    shown = {}
    for name in K.__all__:
        function = getattr(K, name)
        count = needed(function)
        try:
            found = function(*[value] * count) if count else None
            if isinstance(found, AbstractContextManager):
                with found:
                    pass
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends here
            shown[name] = {Path(file).name for file in files(error.__traceback__)}
    assert {name: found for name, found in shown.items() if found != {HERE}} == {}
    assert len(shown) > 100


def test_frames_of_a_users_function_stay_and_ours_around_it_go() -> None:
    def step(x: Any, states: Any) -> Any:
        return deeper(x)

    def deeper(x: Any) -> Any:
        return K.dot(x, K.ones((7, 7))), []

    with pytest.raises(ValueError, match=r"K\.dot") as caught:
        K.rnn(step, K.ones((2, 3, 4)), [])
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["step", "deeper"]

    def divides(x: Any, states: Any) -> Any:
        return 1 / 0

    with pytest.raises(ZeroDivisionError) as other:
        K.rnn(divides, K.ones((2, 3, 4)), [])
    names = [frame.name for frame in traceback.extract_tb(other.value.__traceback__)]
    assert names[1:] == ["divides"]


def test_what_a_user_raises_from_an_error_keeps_its_cause() -> None:
    def convert() -> None:
        try:
            K.ones((2,)) + K.ones((3,))
        except ValueError as error:
            raise RuntimeError("the sizes differ") from error

    with pytest.raises(RuntimeError) as caught:
        convert()
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    assert [Path(file).name for file in files(cause.__traceback__)] == [HERE]
    text = "".join(traceback.format_exception(caught.value))
    assert "was the direct cause" in text
    assert "core/tensor.py" not in text


def test_everything_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "full")
    with pytest.raises(ValueError, match="broadcast") as caught:
        K.ones((2,)) + K.ones((3,))
    assert sum(map(is_ours, files(caught.value.__traceback__))) >= 3


def test_a_fault_of_this_package_shows_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise AssertionError("cannot be")

    monkeypatch.setattr("backplane.backend.reduction.as_tensor", broken)
    with pytest.raises(AssertionError) as caught:
        K.sum(K.ones((2, 3, 5, 7)))
    assert any(map(is_ours, files(caught.value.__traceback__)))


PROGRAM = """
from backplane import backend as K

def model():
    return K.dot(K.placeholder((None, 2)), K.ones((3, 1)))

def test_model():
    model()

if __name__ == "__main__":
    model()
"""


def run(folder: Path, *command: str) -> str:
    (folder / "test_model.py").write_text(PROGRAM)
    env = {k: v for k, v in os.environ.items() if k != SETTING}
    done = waiting.run([sys.executable, *command], env=env, cwd=folder)
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.mark.parametrize("command", ["test_model.py", "-m pytest -q -p no:cacheprovider"])
def test_python_and_pytest_show_only_the_users_lines(tmp_path: Path, command: str) -> None:
    text = run(tmp_path, *command.split())
    assert "return K.dot(K.placeholder((None, 2)), K.ones((3, 1)))" in text
    assert "K.dot: axis 1 of x and axis 0 of y must have equal sizes" in text
    assert "backplane/" not in text


def test_a_debugger_stops_at_the_users_line() -> None:
    try:
        K.ones((2,)) + K.ones((3,))
    except ValueError as error:
        stack, index = pdb.Pdb(nosigint=True).get_stack(None, error.__traceback__)
    assert Path(stack[index][0].f_code.co_filename).name == HERE
