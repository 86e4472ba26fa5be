"""`K.function(...).to_onnx`: models that run in ONNX Runtime without Backplane."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import waiting
from backplane import backend as K
from backplane import engines
from backplane.engines.onnxruntime import export, library
from backplane.ops.fourier import fft
from cases import gru_steps, lstm_steps

rng = np.random.default_rng(0)
EXAMPLES = Path(__file__).parents[2] / "examples"


def states(session: ort.InferenceSession) -> dict[str, str]:
    metadata = session.get_modelmeta().custom_metadata_map
    found: dict[str, str] = json.loads(metadata["backplane.state"])
    return found


def test_a_training_step_runs_in_plain_onnx_runtime(tmp_path: Path) -> None:
    with engines.use("numpy"):
        x = K.placeholder((None, 3), name="x")
        w = K.variable(rng.standard_normal((3, 2)), name="w")
        y = K.dropout(K.dot(x, w), 0.5, seed=3)
        loss = K.mean(K.square(y - 1.0))
        (g,) = K.gradients(loss, [w])
        f = K.function([x], [loss], [K.update_sub(w, 0.1 * g)])
        path = tmp_path / "step.onnx"
        f.to_onnx(path, outputs=["loss"])
    session = ort.InferenceSession(path)
    assert [i.name for i in session.get_inputs()] == ["x"]
    assert [o.name for o in session.get_outputs()] == ["loss", "w.new", "random_key.new"]
    assert states(session) == {"w": "w.new", "random_key": "random_key.new"}
    with engines.use("cntk"):
        mine = K.function([x], [loss], [K.update_sub(w, 0.1 * g)])
    feed = np.ones((4, 3), "float32")
    state: dict[str, Any] = {}
    for _ in range(3):
        values = session.run(["loss", *states(session).values()], {"x": feed, **state})
        state = dict(zip(states(session), values[1:], strict=True))
        np.testing.assert_allclose(values[0], mine([feed])[0], rtol=1e-6)
        np.testing.assert_allclose(state["w"], K.get_value(w), rtol=1e-6)


def test_convolutions_by_weights_that_are_frozen_stay_convolutions(tmp_path: Path) -> None:
    """ONNX Runtime folds what follows into them. A kernel of one element that may be fed is better
    off as a product.
    """
    x = K.placeholder((None, 4, 4, 3), name="x")
    w = K.variable(rng.standard_normal((1, 1, 3, 5)), name="w")
    f = K.function([x], [K.relu(K.conv2d(x, w, padding="same"), max_value=6)])
    feed, found = rng.standard_normal((2, 4, 4, 3)).astype("float32"), []
    for freeze in (False, True):
        path = str(tmp_path / "f.onnx")
        f.to_onnx(path, freeze=freeze)
        found.append({node.op_type for node in onnx.load(path).graph.node})
        (y,) = ort.InferenceSession(path).run(None, {"x": feed})
        np.testing.assert_allclose(y, f([feed])[0], rtol=1e-5, atol=1e-6)
    assert "Conv" not in found[0]
    assert "Conv" in found[1]
    assert not found[1] & {"MatMul", "Gemm"}


def test_the_learning_phase_is_chosen_when_the_model_is_written(tmp_path: Path) -> None:
    x = K.placeholder((2,), name="x")
    f = K.function([x, K.learning_phase()], [K.in_train_phase(x * 2.0, x)])
    for phase, want in ((0, 1), (1, 2)):
        f.to_onnx(tmp_path / "f.onnx", learning_phase=phase)
        session = ort.InferenceSession(tmp_path / "f.onnx")
        assert session.run(None, {"x": np.ones(2, "float32")})[0].tolist() == [want, want]


def test_names_are_kept_apart(tmp_path: Path) -> None:
    a, b = K.placeholder((1,), name="a"), K.placeholder((1,), name="a")
    v = K.variable([1.0], name="a")
    f = K.function([a, b], [a + b * v, a], [K.update(v, a)])
    f.to_onnx(tmp_path / "f.onnx")
    session = ort.InferenceSession(tmp_path / "f.onnx")
    assert [i.name for i in session.get_inputs()] == ["a", "a_1"]
    outputs = [o.name for o in session.get_outputs()]
    assert outputs == ["output_0", "output_1", "a_2.new"]
    with pytest.raises(ValueError, match="2 names"):
        f.to_onnx(tmp_path / "f.onnx", outputs=["x"])
    with pytest.raises(ValueError, match="different"):
        f.to_onnx(tmp_path / "f.onnx", outputs=["x", "a"])


def test_a_written_loop_may_have_no_steps(tmp_path: Path) -> None:
    xs = K.placeholder((None, 3), name="xs")
    f = K.function([xs], [K.foldl(lambda a, x: a + x, xs, initializer=K.zeros((3,)))])
    f.to_onnx(tmp_path / "f.onnx")
    model = onnx.load(tmp_path / "f.onnx")
    assert model.opset_import[0].version == library.OPSET
    session = ort.InferenceSession(tmp_path / "f.onnx")
    for steps in (0, 4):
        got = session.run(None, {"xs": np.ones((steps, 3), "float32")})[0]
        np.testing.assert_array_equal(got, [steps] * 3)


def test_large_weights_lie_beside_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "LARGE", 1000)
    x, w = K.placeholder((None, 50), name="x"), K.variable(np.eye(50) * 2)
    K.function([x], [K.dot(x, w)]).to_onnx(tmp_path / "f.onnx")
    assert (tmp_path / "f.onnx.data").stat().st_size >= 10_000
    session = ort.InferenceSession(tmp_path / "f.onnx")
    assert (session.run(None, {"x": np.ones((1, 50), "float32")})[0] == 2).all()


def test_the_example_trains_without_backplane(tmp_path: Path) -> None:
    path = tmp_path / "step.onnx"
    script = EXAMPLES / "onnx_training_step.py"
    environment = {**os.environ, "KERAS_BACKEND": "cntk"}
    written = [sys.executable, str(script), "write", str(path)]
    waiting.run(written, check=True, env=environment)
    code = (
        "import runpy, sys; sys.modules['backplane'] = None; sys.modules['onnx'] = None;"
        f"sys.argv = ['', 'run', {str(path)!r}];"
        f"runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    run = [sys.executable, "-c", code]
    printed = waiting.run(run, check=True).stdout
    last = float(printed.splitlines()[-1].split("loss ")[1].split(",")[0])
    assert last < 0.1


def test_frozen_weights_are_constants_of_the_model(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    x, w = K.placeholder((None, 3), name="x"), K.variable(np.ones((3, 2)), name="w")
    counter = K.variable(1.0, name="counter")
    y = K.dot(x, w) * counter
    for path, updates in (("plain", []), ("step", [K.update_add(counter, 1.0)])):
        K.function([x], [y], updates=updates).to_onnx(tmp_path / path, freeze=True)
        model = onnx.load(tmp_path / path).graph
        states = ["counter"] if updates else []
        assert [i.name for i in model.input] == ["x", *states]
        assert {"w", "counter"} <= {i.name for i in model.initializer}
        session = ort.InferenceSession(tmp_path / path)
        assert (session.run(None, {"x": np.ones((1, 3), "float32")})[0] == 3).all()
        assert ("w appears in graph inputs" in capfd.readouterr().err) is False


def test_what_the_model_does_not_read_is_no_input(tmp_path: Path) -> None:
    x, w = K.placeholder((None, 3), name="x"), K.variable(np.ones(3), name="w")
    y = K.in_train_phase(K.dropout(x, 0.5) * w, x)
    f = K.function([x, K.learning_phase()], [y])
    for phase, read in ((0, []), (1, ["w", "random_key"])):
        f.to_onnx(tmp_path / "f.onnx", learning_phase=phase)
        graph = onnx.load(tmp_path / "f.onnx").graph
        assert [i.name for i in graph.input] == ["x", *read]
        assert [o.name for o in graph.output] == ["output_0", *[f"{n}.new" for n in read[1:]]]


def test_names_are_those_that_the_user_gave(tmp_path: Path) -> None:
    for _ in range(2):  # The second tensors of these names have a number behind theirs.
        x, w = K.placeholder((2,), name="points"), K.variable([1.0, 2.0], name="weights")
        y = K.identity(x * w, name="scores")
    f = K.function([x], [y, x + 1.0], [K.update_add(w, [1.0, 1.0])])
    f.to_onnx(tmp_path / "f.onnx")
    session = ort.InferenceSession(tmp_path / "f.onnx")
    assert [i.name for i in session.get_inputs()] == ["points"]
    assert [o.name for o in session.get_outputs()] == ["scores", "output_1", "weights.new"]
    f.to_onnx(tmp_path / "f.onnx", inputs=["a"], outputs=["b", "c"])
    session = ort.InferenceSession(tmp_path / "f.onnx")
    assert session.run(["c"], {"a": np.ones(2, "float32")})[0].tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="inputs must be a list of 1 name, "):
        f.to_onnx(tmp_path / "f.onnx", inputs=["a", "b"])


@pytest.mark.parametrize("opset", [16, 18, 21, 23])
def test_the_version_of_the_operators(tmp_path: Path, opset: int) -> None:
    x, w = K.placeholder((None, 3), name="x"), K.variable(rng.standard_normal((3, 2)))
    f = K.function([x], [K.softmax(K.relu(K.dot(x, w))), K.max(x, axis=1)])
    f.to_onnx(tmp_path / "f.onnx", opset=opset)
    assert onnx.load(tmp_path / "f.onnx").opset_import[0].version == opset
    given = rng.standard_normal((4, 3)).astype("float32")
    found = ort.InferenceSession(tmp_path / "f.onnx").run(None, {"x": given})
    for a, b in zip(found, f([given]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("opset", [16, 19, 22])
def test_versions_without_the_kernels_of_groups(tmp_path: Path, opset: int) -> None:
    x = K.placeholder((None, 8), name="x")
    centred = x - K.mean(x, axis=-1, keepdims=True)
    y = centred / K.sqrt(K.mean(K.square(centred), axis=-1, keepdims=True) + 1e-5)
    z = 0.5 * x * (1.0 + K.erf(x / np.sqrt(2.0)))
    f = K.function([x], [y, z])
    f.to_onnx(tmp_path / "f.onnx", opset=opset)
    kinds = {node.op_type for node in onnx.load(tmp_path / "f.onnx").graph.node}
    assert ("LayerNormalization" in kinds) == (opset >= 17)
    assert ("Gelu" in kinds) == (opset >= 20)
    given = rng.standard_normal((4, 8)).astype("float32")
    found = ort.InferenceSession(tmp_path / "f.onnx").run(None, {"x": given})
    for a, b in zip(found, f([given]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_versions_that_there_are_not(tmp_path: Path) -> None:
    x = K.placeholder((None, 3), name="x")
    with pytest.raises(ValueError, match=r"opset must be from \d+ to \d+, got 3"):
        K.function([x], [x * 2.0]).to_onnx(tmp_path / "f.onnx", opset=3)


@pytest.mark.parametrize("opset", [None, 22, 23])
@pytest.mark.parametrize(
    ("kind", "make", "states"),
    [(b"LSTM", lstm_steps.together, 2), (b"GRU", gru_steps.after, 1), (b"GRU", gru_steps.apart, 1)],
)
def test_the_kernel_of_a_recurrent_layer(
    tmp_path: Path, opset: int | None, kind: bytes, make: Callable[[], Any], states: int
) -> None:
    x = K.placeholder((None, 5, lstm_steps.FEATURES), name="x")
    start = K.tile(K.zeros_like(x[:, 0, :1]), (1, lstm_steps.UNITS))
    f = K.function([x], [K.rnn(make(), x, [start] * states)[1]])
    f.to_onnx(tmp_path / "f.onnx", opset=opset)
    assert kind in (tmp_path / "f.onnx").read_bytes()
    session = ort.InferenceSession(tmp_path / "f.onnx")
    for samples in (2, 0):
        given = rng.standard_normal((samples, 5, lstm_steps.FEATURES)).astype("float32")
        np.testing.assert_allclose(
            session.run(None, {"x": given})[0], f([given])[0], rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("size", [6, None])
def test_order_angles_and_spectra(tmp_path: Path, size: int | None) -> None:
    x = K.placeholder((None, size), name="x")
    re, im = fft(x, K.zeros_like(x))
    outputs = [K.sort(x), K.argsort(x), K.atan2(x, 0.5), re, im]
    f = K.function([x], outputs)
    path = tmp_path / "order.onnx"
    f.to_onnx(path)
    feed = rng.normal(size=(3, 6)).astype("float32")
    found = ort.InferenceSession(path).run(None, {"x": feed})
    spectrum = np.fft.fft(feed)
    wanted = [np.sort(feed), feed.argsort(), np.arctan2(feed, 0.5), spectrum.real, spectrum.imag]
    for y, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
