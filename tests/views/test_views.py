"""Summaries, listings, profiles and what `repr` tells of tensors and functions."""

from __future__ import annotations

import json
import sys
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile import progress


def model():
    """A function with scopes, a loop, a gradient and updates."""
    x = K.placeholder((None, 3, 4), name="x")
    w = K.variable(np.full((4, 4), 0.1), name="w")

    def step(i, s):
        y = K.tanh(K.dot(i + s[0], w))
        return y, [y]

    with K.name_scope("loop"):
        h, _, _ = K.rnn(step, x, [x[:, 0] * 0.0])
    with K.name_scope("loss"):
        loss = K.mean(K.square(h))
    (g,) = K.gradients(loss, [w])
    return K.function([x], [loss], updates=[K.update_sub(w, 0.1 * g)], name="train"), w


X = np.linspace(-1, 1, 24).reshape(2, 3, 4)


# --- text -----------------------------------------------------------------------------------------


def test_the_summary_counts(engine):
    f, _ = model()
    text = f.summary(unknown=2)
    assert f"train, for the engine {engine.name}" in text
    assert "input           x      (?, 3, 4)   float32" in text
    assert "updated state   w      (4, 4)      float32" in text
    assert "16 in 1 variable, 16 trainable, 64 B" in text
    assert repr(text) == str(text)
    assert text._repr_html_().startswith("<pre>")


def test_the_summary_estimates_the_work_of_products():
    x = K.placeholder((None, 100))
    f = K.function([x], [K.dot(x, K.variable(np.ones((100, 10))))])
    assert "20 k FLOPs a call" in f.summary(unknown=10)
    assert "400 B at most at one time" in f.summary(unknown=10)


def test_a_convolution_takes_two_operations_for_each_product():
    x = K.placeholder((1, 8, 8, 3))
    f = K.function([x], [K.conv2d(x, K.variable(np.ones((3, 3, 3, 4))), padding="same")])
    assert f"{2 * 8 * 8 * 4 * 27 / 1000:.3g} k FLOPs a call" in f.summary()


def test_the_source_has_the_nodes_and_the_lines(engine):
    f, _ = model()
    f([X])
    text = f.source()
    assert text.startswith(f"# train, emitted for the engine {engine.name}\n# a0: placeholder 'x'")
    assert "def program(a0, a1" in text
    assert "# body of scan: " in text
    assert "(?, 3, 4)" in text
    assert "test_views.py:" in text
    assert "gradient, " in text


def test_the_source_follows_the_learning_phase():
    x = K.placeholder((2,))
    f = K.function([x, K.learning_phase()], [K.in_train_phase(K.exp(x), K.sin(x))])
    assert "sin(a0)" in f.source()
    assert "exp(a0)" in f.source(learning_phase=1)


def test_tensors_and_functions_tell_what_they_are():
    x, w = K.placeholder((None, 2), name="x"), K.variable(np.ones((2, 3)), name="w")
    y = K.dot(x, w)
    assert repr(x) == "<Placeholder 'x' shape=(None, 2) dtype=float32>"
    assert repr(w) == "<Variable 'w' shape=(2, 3) dtype=float32>"
    assert repr(K.constant(2.0)).endswith("shape=() dtype=float32 value=2.0>")
    assert repr(y).endswith("shape=(None, 3) dtype=float32 = matmul(x, w)>")
    f = K.function([x], [y], updates=[K.update_add(w, w)], name="f")
    shown = "<K.function 'f' (x: float32 (?, 2)) -> (float32 (?, 3)), updates 1 variable, on numpy>"
    assert repr(f) == shown
    assert "test_views.py" in y._repr_html_()
    assert "&lt;Placeholder" in x._repr_html_()
    assert f._repr_html_() == f.summary()._repr_html_()


# --- profiles -------------------------------------------------------------------------------------


def test_a_profile_groups_by_op_line_and_scope(engine):
    f, w = model()
    before, loss = (
        K.get_value(w),
        K.function(f._function.plan.inputs, f._function.plan.outputs)([X]),
    )
    profile = f.profile(X, repeat=2)
    np.testing.assert_array_equal(K.get_value(w), before)
    np.testing.assert_allclose(f([X]), loss, rtol=1e-5)
    assert profile.call > 0
    assert profile.seconds == pytest.approx(sum(row[2] for row in profile.by("op")))
    scopes = {row[0] for row in profile.by("scope")}
    assert {"loop", "loss", "gradients/loop"} <= scopes
    tanh = next(row for row in profile.by("op") if row[0] == "tanh")
    assert tanh[1] == 3  # the steps of the loop
    assert tanh[3] == 3 * 2 * 4 * 4
    assert any("K.mean(K.square(h))" in row[0] for row in profile.by("line"))
    text = str(profile)
    assert f"train on the engine {engine.name}" in text
    assert ("fuses ops" in text) == ("fuses" in engine.capabilities)


def test_a_profile_runs_kernels_that_read_only_some_of_their_operands(engine):
    """The gradient of a max-pooling, for one: operands that nobody reads are empty."""
    x, w = K.placeholder((None, 6, 6, 2)), K.variable(np.full((3, 3, 2, 3), 0.1))
    loss = K.sum(K.pool2d(K.conv2d(x, w, padding="same"), (2, 2), (2, 2)))
    profile = K.function([x], K.gradients(loss, [w])).profile(np.ones((2, 6, 6, 2)), repeat=1)
    assert any("pool" in row[0] for row in profile.by("op")), engine.name


def test_the_flame_graph_and_the_trace_can_be_opened(tmp_path):
    f, _ = model()
    profile = f.profile(X, repeat=1)
    for name in ("flame.svg", "flame.html"):
        profile.flame(tmp_path / name)
    picture = ET.parse(tmp_path / "flame.svg")
    widths = [
        float(r.get("width"))
        for r in picture.iter("{http://www.w3.org/2000/svg}rect")
        if "%" not in r.get("width")
    ]
    assert max(widths) == pytest.approx(1200 - 24, abs=1)
    assert "{{" not in (tmp_path / "flame.html").read_text(encoding="utf-8")
    profile.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    runs = [e for e in events if e["ph"] == "X"]
    assert len(runs) == len(profile.records)
    ends = [e["ts"] + e["dur"] for e in runs]
    assert all(b["ts"] >= end - 0.01 for end, b in zip(ends, runs[1:], strict=False))
    with pytest.raises(ValueError, match=r"to_file must end in \.svg or \.html, got 'x.pdf'"):
        profile.flame("x.pdf")
    with pytest.raises(ValueError, match="key must be 'op', 'line' or 'scope', got 'size'"):
        profile.by("size")


def test_a_profile_leaves_random_numbers_as_they_are():
    K.set_random_seed(3)
    f = K.function([], [K.random_uniform((3,))])
    first = f([])[0]
    K.set_random_seed(3)
    g = K.function([], [K.random_uniform((3,))])
    g.profile(repeat=1)
    np.testing.assert_array_equal(g([])[0], first)


def test_views_check_their_numbers():
    f = K.function([], [K.variable(1.0) * 2])
    for repeat in (0, -1):
        with pytest.raises(ValueError, match=r"profile: repeat must be . or more"):
            f.profile(repeat=repeat)
    with pytest.raises(ValueError, match=r"summary: unknown must be 0 or more, got -1"):
        f.summary(-1)


def test_a_profile_checks_the_number_of_values():
    f, _ = model()
    with pytest.raises(ValueError, match="takes 1 value"):
        f.profile(X, X)


# --- errors and progress --------------------------------------------------------------------------


def test_an_error_shows_the_calls_that_led_to_the_line(engine):
    def inner(x, i):
        return K.gather(x, i)

    def outer(x, i):
        return inner(x, i) * 2.0

    x, i = K.placeholder((3, 2)), K.placeholder((None,), dtype="int32")
    f = K.function([x, i], [outer(x, i)])
    if "unchecked" in engine.capabilities:
        y = K.placeholder((None, 2))
        f = K.function([y, i], [inner(y, i) + outer(y, i)[:1] + y])
    with pytest.raises(Exception) as caught:
        f([np.ones((3, 2)), [0, 1, 7, 8, 9]])
    note = "\n".join(caught.value.__notes__)
    assert "test_an_error_shows_the_calls_that_led_to_the_line" in note
    # What runs the tests in parallel gives its program as a string.
    called = [
        line for line in note.splitlines() if "called from" in line and "<string>" not in line
    ]
    assert bool(called) == ("in inner" in note or "in outer" in note)
    assert "backplane/src" not in note
    assert "_pytest" not in note


class Terminal:
    """A stream that says it is a terminal, and remembers what is written."""

    def __init__(self, terminal: bool) -> None:
        self.terminal, self.text = terminal, ""

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(("terminal", "patience"), [(True, 0.05), (True, 600.0), (False, 0.05)])
def test_progress_is_shown_on_a_terminal_after_a_while(monkeypatch, terminal, patience):
    stream = Terminal(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    expected = terminal and patience < 1
    with progress.shown("Compiling 'f'"):
        time.sleep(0.2)
        end = time.monotonic() + 60
        while expected and "Compiling 'f'" not in stream.text and time.monotonic() < end:
            time.sleep(0.05)
    assert ("Compiling 'f'" in stream.text) == expected


def test_a_first_call_shows_progress(monkeypatch):
    seen = []

    class Shown:
        def __init__(self, what):
            seen.append(what)

        def __enter__(self):
            pass

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("backplane.compile.function.shown", Shown)
    x = K.placeholder((2,))
    f = K.function([x], [K.exp(x)], name="f")
    f([[0.0, 0.0]])
    f([[0.0, 0.0]])
    assert seen == ["Compiling 'f' for numpy"]
