"""The spellings of Keras 1, which document 000 gives. `backplane.keras1` has them as its own. K
accepts each with one warning that names today's.
"""

from __future__ import annotations

import ast
import inspect
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import keras1 as K1
from backplane.backend import _keras1

FACTS = json.loads(Path(__file__).with_name("signatures.json").read_text(encoding="utf-8"))
OLDER = {e["name"]: e["older"]["000"] for e in FACTS["functions"] if "000" in e.get("older", {})}
KERAS1 = json.loads(Path(__file__).with_name("keras1.json").read_text(encoding="utf-8"))
SIGNATURES = KERAS1["documented"] | KERAS1["exports"]


def names(signature: str) -> tuple[str, ...]:
    scope: dict[str, Any] = {}
    exec(f"def fact{signature}: pass", scope)
    return tuple(inspect.signature(scope["fact"]).parameters)


def described(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Its parameters but for annotations."""
    listed = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in listed]


def test_the_table_is_what_the_document_says() -> None:
    assert {name: names(OLDER[name]) for name in OLDER} == {
        name: tuple(_keras1.signature(name).parameters) for name in OLDER
    }
    for name in _keras1.SIGNATURES:
        today = set(inspect.signature(getattr(K, _keras1.TODAY.get(name, name))).parameters)
        wanted = {_keras1.RENAMED.get(p, p) for p in _keras1.signature(name).parameters} - {None}
        assert wanted <= today, f"K.{name} has no {wanted - today}"


def test_the_namespace_has_the_functions_of_keras_1_and_no_others() -> None:
    assert K1.__all__ == sorted(SIGNATURES)
    assert all(callable(getattr(K1, name)) for name in SIGNATURES)
    with pytest.raises(AttributeError, match="'less' in Keras 1; `from backplane import backend"):
        K1.less  # noqa: B018
    with pytest.raises(AttributeError, match="no_such_name"):
        K1.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", sorted(set(SIGNATURES) - {"py_all"}))
def test_signatures(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def fact{SIGNATURES[name]}: pass", scope)
    assert described(getattr(K1, name)) == described(scope["fact"])
    assert getattr(K1, name).__doc__


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes]


def once(call: Callable[[], Any], *today: str) -> Any:
    """The value of a call that must warn once, at this file, naming each of `today`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    assert [w.category for w in caught] == [DeprecationWarning]
    assert caught[0].filename == __file__
    for text in today:
        assert text in str(caught[0].message)
    assert str(caught[0].message).startswith("K.")
    return result if result is None or isinstance(result, str) else K.eval(result)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found, K.eval(expected))


X4, K4, X5, K5, X3, K3 = arrays(
    (2, 5, 6, 3), (2, 3, 3, 4), (2, 4, 5, 4, 2), (2, 2, 2, 2, 3), (2, 7, 3), (3, 3, 2)
)
TH4, THK4 = X4.transpose(0, 3, 1, 2), K4.transpose(3, 2, 0, 1)
TH5, THK5 = X5.transpose(0, 4, 1, 2, 3), K5.transpose(4, 3, 0, 1, 2)


@pytest.mark.parametrize("wrap", [K.constant, np.asarray], ids=["symbolic", "arrays"])
def test_conv2d(engine: object, wrap: Callable[[Any], Any]) -> None:
    x, k = wrap(X4), wrap(K4)
    want = K.eval(K.conv2d(x, k, (2, 1), "same"))
    hints = {"image_shape": (None, 5, 6, 3), "filter_shape": None}
    found = once(
        lambda: K.conv2d(x, k, strides=(2, 1), border_mode="same", dim_ordering="tf", **hints),
        "padding='same'", "data_format='channels_last'", "no image_shape",
    )  # fmt: skip
    np.testing.assert_array_equal(found, want)
    th = K.eval(K.conv2d(wrap(TH4), k, (2, 1), "same", "channels_first"))
    for args, kwargs in (
        (((2, 1), "same", "th"), {}),
        (((2, 1), "same", "th", None, None, (1, 1)), {}),
        (((2, 1),), {"border_mode": "same", "dim_ordering": "th"}),
        ((), {"strides": (2, 1), "padding": "same", "dim_ordering": "th"}),
    ):
        found = once(
            lambda args=args, kwargs=kwargs: K.conv2d(wrap(TH4), wrap(THK4), *args, **kwargs),
            "data_format='channels_first'", "a kernel of (spatial axes, in, out)",
        )  # fmt: skip
        np.testing.assert_array_equal(found, th)
    np.testing.assert_allclose(th.transpose(0, 2, 3, 1), want, rtol=1e-5, atol=1e-6)
    dilated = K.conv2d(x, k, dilation_rate=(2, 1))
    same(once(lambda: K.conv2d(x, k, filter_dilation=(2, 1)), "dilation_rate=(2, 1)"), dilated)


def test_the_default_ordering_decides_about_kernels_too(engine: object) -> None:
    """A call in Keras 1's spelling means what it meant there; one in today's does not change."""
    once(lambda: K.set_image_dim_ordering("th"), "K.set_image_data_format")
    assert K.image_data_format() == "channels_first"
    assert once(K.image_dim_ordering, "K.image_data_format()") == "th"
    want = K.conv2d(TH4, K4)
    same(once(lambda: K.conv2d(TH4, THK4, border_mode="valid")), want)
    same(once(lambda: K.conv2d(TH4, THK4, dim_ordering="default")), want)
    same(once(lambda: K.conv2d(TH4, K4, border_mode="valid", data_format="channels_first")), want)


def test_other_convolutions(engine: object) -> None:
    want = K.conv3d(X5, K5, (1, 2, 1), "same")
    same(once(lambda: K.conv3d(X5, K5, (1, 2, 1), border_mode="same", volume_shape=None)), want)
    found = once(lambda: K.conv3d(TH5, THK5, (1, 2, 1), "same", "th"))
    np.testing.assert_allclose(found.transpose(0, 2, 3, 4, 1), K.eval(want), rtol=1e-5, atol=1e-6)
    want = K.conv1d(X3, K3, 2, "same")
    same(once(lambda: K.conv1d(X3, K3, stride=2, border_mode="same"), "strides=2"), want)
    K.set_image_data_format("channels_first")
    same(once(lambda: K.conv1d(X3, K3, stride=2, border_mode="same")), want)
    K.set_image_data_format("channels_last")
    depthwise, pointwise = arrays((2, 2, 3, 2), (1, 1, 6, 4))
    th = [k.transpose(3, 2, 0, 1) for k in (depthwise, pointwise)]
    # Turned in the graph, as there: a library may choose its kernel by the layout in memory.
    turned = [K.permute_dimensions(k, (2, 3, 1, 0)) for k in th]
    want = K.separable_conv2d(TH4, *turned, data_format="channels_first")
    same(once(lambda: K.separable_conv2d(TH4, *th, dim_ordering="th")), want)
    plain = K.separable_conv2d(TH4, depthwise, pointwise, data_format="channels_first")
    np.testing.assert_allclose(K.eval(want), K.eval(plain), rtol=1e-5, atol=1e-6)
    want = K.pool2d(TH4, (2, 2), (2, 2), "same", "channels_first", "avg")
    same(once(lambda: K.pool2d(TH4, (2, 2), (2, 2), "same", "th", "avg")), want)
    want = K.pool3d(X5, (2, 2, 2), padding="same")
    same(once(lambda: K.pool3d(X5, (2, 2, 2), border_mode="same")), want)


def test_deconv2d(engine: object) -> None:
    y = K.eval(K.conv2d(X4, K4, (2, 2), "same"))
    # Of an image with 3 channels and filters to 4: the way back takes 4 to 3.
    want = K.eval(K.conv2d_transpose(y, K4, (2, 5, 6, 3), (2, 2), "same"))
    kernel = K4.transpose(0, 1, 3, 2)
    advice = "K.conv2d_transpose"
    same(once(lambda: K.deconv2d(y, kernel, (2, 5, 6, 3), (2, 2), "same"), advice), want)
    th = kernel.transpose(3, 2, 0, 1)
    found = once(
        lambda: K.deconv2d(y.transpose(0, 3, 1, 2), th, (2, 3, 5, 6), (2, 2), "same", "th"), advice
    )
    np.testing.assert_allclose(found.transpose(0, 2, 3, 1), want, rtol=1e-5, atol=1e-6)
    x = K.placeholder((None, 3, 3, 4))
    with pytest.warns(DeprecationWarning, match="Keras 1"):
        shape = K.int_shape(K.deconv2d(x, kernel, (None, 5, 6, 3), (2, 2), "same"))
    assert shape == (None, 5, 6, 3)


def test_padding(engine: object) -> None:
    same(once(lambda: K.temporal_padding(X3, 2), "padding=(2, 2)"), K.temporal_padding(X3, (2, 2)))
    same(once(lambda: K.temporal_padding(X3, padding=1)), K.temporal_padding(X3))
    want = K.temporal_padding(X3, (1, 2))
    same(once(lambda: K.asymmetric_temporal_padding(X3, 1, 2), "K.temporal_padding"), want)
    want = K.spatial_2d_padding(X4, ((1, 1), (2, 2)))
    same(once(lambda: K.spatial_2d_padding(X4, (1, 2)), "padding=((1, 1), (2, 2))"), want)
    same(once(lambda: K.spatial_2d_padding(X4, padding=(1, 2), dim_ordering="tf")), want)
    want = K.spatial_2d_padding(TH4, ((1, 1), (2, 2)), "channels_first")
    same(once(lambda: K.spatial_2d_padding(TH4, (1, 2), "th")), want)
    want = K.spatial_2d_padding(TH4, ((1, 2), (3, 0)), "channels_first")
    found = once(
        lambda: K.asymmetric_spatial_2d_padding(TH4, 1, 2, 3, 0, "th"), "spatial_2d_padding"
    )
    same(found, want)
    want = K.spatial_3d_padding(X5, ((1, 1), (2, 2), (0, 0)))
    same(once(lambda: K.spatial_3d_padding(X5, [1, 2, 0])), want)


def test_resizing_and_shaping(engine: object) -> None:
    want = K.resize_images(X4, 2, 3, "channels_last")
    same(once(lambda: K.resize_images(X4, 2, 3, "tf"), "data_format='channels_last'"), want)
    same(
        once(lambda: K.resize_images(X=X4, height_factor=2, width_factor=3, dim_ordering="tf")),
        want,
    )
    want = K.resize_volumes(TH5, 2, 1, 1, "channels_first")
    same(once(lambda: K.resize_volumes(TH5, 2, 1, 1, dim_ordering="th")), want)
    same(once(lambda: K.expand_dims(X3, dim=1), "axis=1 instead of dim"), X3[:, None])
    indices = np.array([0, 2], "int32")
    same(once(lambda: K.one_hot(indices, nb_classes=3), "num_classes=3"), K.one_hot(indices, 3))
    values = once(lambda: K.batch_get_value(xs=[K.variable(1.0)])[0], "ops")
    assert values == 1.0


def test_normalization_and_randomness(engine: object) -> None:
    mean, var = X4.mean((0, 1, 2)), X4.var((0, 1, 2))
    want = K.batch_normalization(X4, mean, var, mean, var, epsilon=0.5)
    same(once(lambda: K.batch_normalization(X4, mean, var, mean, var, 0.5), "epsilon=0.5"), want)
    want = K.random_normal((3,), stddev=2.0, seed=1)
    same(once(lambda: K.random_normal((3,), 0.0, std=2.0, seed=1), "stddev=2.0"), want)
    want = K.random_uniform((3,), 1.0, 2.0, seed=1)
    same(once(lambda: K.random_uniform((3,), low=1.0, high=2.0, seed=1), "minval=1.0"), want)


def test_warned_in_every_call_also_where_programs_are_kept(engine: object) -> None:
    for _ in range(2):
        once(lambda: K.deconv2d(X4, K4[..., :3].transpose(0, 1, 3, 2), (2, 6, 8, 3)))
        once(lambda: K.expand_dims(X3, dim=1))


def test_what_is_wrong_in_either_spelling_stays_an_error() -> None:
    with pytest.raises(ValueError, match=r"K\.conv2d: dim_ordering must be 'tf', 'th' or"):
        K.conv2d(X4, K4, dim_ordering="channels")
    with pytest.raises(TypeError, match=r"given twice"):
        K.conv2d(X4, K4, padding="same", border_mode="same")
    with pytest.raises(TypeError, match="border"):
        K.conv2d(X4, K4, border="same")
    with pytest.raises(ValueError, match=r"K\.spatial_2d_padding: padding must be 2 pairs"):
        K.spatial_2d_padding(X4, (1, 2, 3))
    with (
        pytest.warns(DeprecationWarning, match="Keras 1"),
        pytest.raises(ValueError, match=r"K\.conv2d: padding"),
    ):
        K.conv2d(X4, K4, border_mode="full")
    with (
        pytest.warns(DeprecationWarning, match="Keras 1"),
        pytest.raises(ValueError, match=r"dim.ordering"),
    ):
        K.set_image_dim_ordering("x")
    with pytest.raises(ValueError, match=r"K\.spatial_2d_padding: padding must not be negative"):
        K.spatial_2d_padding(X4, ((1, -2), (0, 0)))


def test_the_order_of_arguments(engine: object) -> None:
    p, t = K.constant([[0.2, 0.8], [0.5, 0.5]]), K.constant([[0.0, 1.0], [1.0, 0.0]])
    labels = K.constant([1, 0], dtype="int32")
    same(K.eval(K1.categorical_crossentropy(p, t)), K.categorical_crossentropy(t, p))
    same(K.eval(K1.categorical_crossentropy(target=t, output=p)), K.categorical_crossentropy(t, p))
    found = K.eval(K1.sparse_categorical_crossentropy(p, labels, from_logits=True))
    same(found, K.sparse_categorical_crossentropy(labels, p, from_logits=True))
    same(K.eval(K1.binary_crossentropy(p, t)), K.binary_crossentropy(t, p))
    mean, var = X4.mean((0, 1, 2)), X4.var((0, 1, 2))
    want = K.batch_normalization(X4, mean, var, mean, var, epsilon=0.5)
    same(K.eval(K1.batch_normalization(X4, mean, var, mean, var, 0.5)), want)


def test_calls_that_do_not_warn(engine: object) -> None:
    """Each spelling of Keras 1 is today's under another name."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        want = K.eval(K.conv2d(X4, K4, (2, 1), "same", "channels_last", (1, 1)))
        same(want, K1.conv2d(X4, K4, (2, 1), "same", "tf", None, None, (1, 1)))
        found = K.eval(K1.conv2d(TH4, THK4, (2, 1), "same", "th"))
        np.testing.assert_allclose(found.transpose(0, 2, 3, 1), want, rtol=1e-5, atol=1e-6)
        same(K.eval(K1.atrous_conv2d(X4, K4, 2)), K.conv2d(X4, K4, dilation_rate=(2, 2)))
        found = K.eval(K1.conv3d(TH5, THK5, dim_ordering="th"))
        want = K.eval(K.conv3d(X5, K5))
        np.testing.assert_allclose(found.transpose(0, 2, 3, 4, 1), want, rtol=1e-5, atol=1e-6)
        same(K.eval(K1.conv1d(X3, K3, stride=2)), K.conv1d(X3, K3, 2))
        same(K.eval(K1.temporal_padding(X3, 2)), K.temporal_padding(X3, (2, 2)))
        want = K.spatial_2d_padding(X4, ((1, 1), (2, 2)))
        same(K.eval(K1.spatial_2d_padding(X4, (1, 2), "tf")), want)
        same(K.eval(K1.asymmetric_spatial_2d_padding(X4, 1, 1, 2, 2)), want)
        want = K.resize_images(X4, 2, 3, "channels_last")
        same(
            K.eval(K1.resize_images(X=X4, height_factor=2, width_factor=3, dim_ordering="tf")), want
        )
        same(K.eval(K1.expand_dims(X3, dim=0)), X3[None])
        same(K.eval(K1.one_hot(np.array([0, 2], "int32"), nb_classes=3)), np.eye(3)[[0, 2]])
        same(K.eval(K1.lesser(X3, 0.0)), X3 < 0)
        same(K.eval(K1.lesser_equal(X3, X3)), np.full(X3.shape, True))
        same(K.eval(K1.pack([X3, X3])), np.stack([X3, X3]))
        want = K.random_normal((3,), 0.0, 2.0, seed=1)
        same(K.eval(K1.random_normal((3,), std=2.0, seed=1)), want)
        found = K.eval(K1.batch_dot(X3[0], X3[1], 0))
        np.testing.assert_allclose(found, (X3[0] * X3[1]).sum(0)[:, None], rtol=1e-5)
        assert K1.image_dim_ordering() == "tf"
        K1.set_image_dim_ordering("th")
        assert K.image_data_format() == "channels_first"


def test_moving_averages(engine: object) -> None:
    average = K1.variable([1.0, 2.0])
    step = K1.function([], [], [K1.moving_average_update(average, K1.ones((2,)), momentum=0.75)])
    step([])
    np.testing.assert_allclose(K1.get_value(average), [1.0, 1.75])


def test_function_ignores_the_arguments_of_theano() -> None:
    x = K1.placeholder((2,))
    with pytest.warns(UserWarning, match=r"K\.function: mode is of Theano and ignored"):
        f = K1.function([x], [x * 2.0], mode="FAST_RUN")
    same(f([[1.0, 2.0]])[0], np.array([2.0, 4.0]))


def test_what_is_no_keras_tensor() -> None:
    found = [K1.is_keras_tensor(x) for x in (np.ones(2), K1.ones((2,)), K1.placeholder((2,)))]
    assert found == [False, False, True]


def test_legacy_weight_ordering() -> None:
    K1.set_legacy_weight_ordering(True)
    assert K1.legacy_weight_ordering() is True
    K1.set_legacy_weight_ordering(False)
    with pytest.raises(ValueError, match="must be a bool"):
        K1.set_legacy_weight_ordering("yes")


def test_errors_name_the_function() -> None:
    with pytest.raises(TypeError, match=r"K\.conv2d: missing a required argument: 'kernel'"):
        K1.conv2d(X4)
    with pytest.raises(TypeError, match=r"K\.conv2d: .*'padding'"):
        K1.conv2d(X4, K4, padding="same")
    with pytest.raises(ValueError, match=r"dim_ordering must be 'tf', 'th' or 'default'"):
        K1.conv2d(X4, K4, dim_ordering="x")


def test_type_checkers_see_the_namespace() -> None:
    stub = Path(K1.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    seen: dict[str, list[str]] = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.FunctionDef):
            seen[node.name] = [a.arg for a in node.args.args]
        elif isinstance(node, ast.ImportFrom) and node.module == "backplane.backend":
            seen |= {alias.name: [] for alias in node.names}
    assert seen.keys() == set(K1.__all__)
    for name in _keras1.SIGNATURES:
        plain = [p.name for p in _keras1.signature(name).parameters.values() if p.kind == 1]
        assert seen[name] == plain, name
