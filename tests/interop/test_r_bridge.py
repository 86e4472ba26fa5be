"""What the R package calls, with what reticulate makes of R's values; R itself is in test_r.py."""

import inspect

import numpy as np
import pytest

from backplane import backend as K
from backplane.interop import r


def columns(*rows):
    """A matrix in R's order."""
    return np.asfortranarray(np.array(rows, float))


M = columns([0.5, 2.0, -0.75], [-1.5, 0.25, 1.25])


def test_arrays_give_arrays_on_every_engine(engine):
    found = r.call("dot", [M, M.T], {})
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, M @ M.T, rtol=1e-12)
    assert r.call("sum", [M], {}) == pytest.approx(M.sum())
    assert type(r.call("sum", [M], {})) is float


def test_tensors_of_the_engine_give_such_tensors(engine):
    native = engine.from_numpy(M)
    assert type(r.call("exp", [native], {})) is type(native)


@pytest.mark.parametrize("one_based", [False, True])
def test_axes_count_from_0_or_from_1(one_based):
    first = 1.0 if one_based else 0.0
    np.testing.assert_allclose(r.call("sum", [M], {"axis": first}, one_based), M.sum(axis=0))
    np.testing.assert_allclose(r.call("sum", [M, -1.0], {}, one_based), M.sum(axis=1))
    pattern = np.array([2.0, 1.0]) if one_based else np.array([1.0, 0.0])
    found = r.call("permute_dimensions", [M], {"pattern": pattern}, one_based)
    np.testing.assert_allclose(found, M.T)


def test_errors_about_axes_say_how_they_count():
    with pytest.raises(ValueError, match=r"k_mean: axis: axes count from 1 .* got 0"):
        r.call("mean", [M], {"axis": 0.0}, True)
    with pytest.raises(ValueError, match=r"axis 2 is out of range .* from 0, k_mean from 1\)"):
        r.call("mean", [M], {"axis": 3.0}, True)
    with pytest.raises(ValueError, match=r"out of range for a tensor with 2 axes$"):
        r.call("mean", [M], {"axis": 2.0})


def test_whole_floats_are_integers_where_integers_are_meant():
    assert r.integers([2.0, None, 5.0]) == [2, None, 5]
    assert [type(n) for n in r.integers(np.array([2.0, 3.0]))] == [int, int]
    assert r.integers("same") == "same"
    assert r.integers(1.5) == 1.5
    assert r.indices(np.array([1.0, 0.0])).dtype == np.int32
    assert r.indices(np.array([1.5])).dtype == np.float64
    assert r.indices(2.0) == 2
    assert type(r.indices(2.0)) is int
    assert K.int_shape(r.call("placeholder", [], {"shape": [2.0, None, 5.0]})) == (2, None, 5)
    with pytest.raises(TypeError, match=r"must be an int, got 1\.5"):
        r.call("zeros", [[1.5]], {})


def test_the_tables_name_parameters_that_there_are():
    there = {
        name
        for f in K.__all__
        for p in inspect.signature(getattr(K, f)).parameters
        for name in (p, f"{f}.{p}")
    }
    assert there >= r.AXES | r.INTEGERS | r.INDICES | r.LISTS
    assert not r.INTEGERS & r.INDICES


def test_one_number_gets_the_axis_that_a_variable_or_a_placeholder_has():
    v, x = K.zeros((1,)), K.placeholder(shape=(None,))
    assert r.call("set_value", [v, 4.0], {}) is None
    np.testing.assert_array_equal(K.get_value(v), [4.0])
    r.call("set_value", [], {"x": v, "value": 5})
    np.testing.assert_array_equal(K.get_value(v), [5.0])
    r.call("batch_set_value", [], {"tuples": [[v, 6.0]]})
    np.testing.assert_array_equal(K.get_value(v), [6.0])
    several = r.call("function", [[x], [x + 1.0]], {})
    np.testing.assert_array_equal(several([3.0])[0], [4.0])
    single = r.call("function", [], {"inputs": x, "outputs": x})
    np.testing.assert_array_equal(single(3.0), [3.0])
    assert several.name == "function"
    assert repr(several) == "<K function 'function'>"


def test_names_on_lists_go_to_the_results():
    x, y = K.placeholder(shape=(2,)), K.placeholder(shape=(2,))
    f = r.call("function", [{"a": x, "b": y}], {"outputs": {"difference": x - y}})
    for values in ([[3.0, 3.0], [1.0, 2.0]], {"b": [1.0, 2.0], "a": [3.0, 3.0]}):
        np.testing.assert_array_equal(f(values)["difference"], [2.0, 1.0])
    with pytest.raises(ValueError, match="values are named a, c, the inputs a, b"):
        f({"a": [0.0, 0.0], "c": [0.0, 0.0]})
    v = K.variable(3.0)
    found = r.call("gradients", [v * v, {"v": v, "none": K.variable(1.0)}], {})
    assert list(found) == ["v", "none"]
    assert found["none"] is None
    assert r.call("batch_get_value", [{"v": v}], {}) == {"v": 3.0}
    assert K.int_shape(r.call("stack", [{"a": v, "b": v}], {})) == (2,)


def test_wrong_numbers_of_arguments_are_refused():
    with pytest.raises(TypeError, match="2 were given"):
        r.call("abs", [1.0, 2.0], {})
    with pytest.raises(TypeError, match=r"K.abs: got x twice"):
        r.call("abs", [1.0], {"x": 2.0})


def test_results_are_what_becomes_the_right_thing_in_r():
    assert r.plain(np.array(1.5)) == 1.5
    assert type(r.plain(np.float32(1.5))) is float
    assert r.plain([1, [np.array(2)]]) == (1, (2,))
    assert r.plain({"a": [None]}) == {"a": (None,)}
    assert r.plain(K.zeros((2,)).dtype) == "float32"
    assert type(r.plain(K.zeros((2,)).dtype)) is str
    assert type(r.plain(K.placeholder(shape=(2, None)).shape)) is tuple
    # R's integers end at 2**31 - 1.
    assert type(r.plain(2**31)) is float
    assert type(r.plain(2**31 - 1)) is int
    assert r.plain(True) is True


def test_operators():
    x = K.variable(M)
    np.testing.assert_allclose(K.eval(r.operate("^", x, 2.0)), M**2, rtol=1e-6)
    np.testing.assert_allclose(K.eval(r.operate("-", M, x)), 0 * M)
    np.testing.assert_array_equal(K.eval(r.operate("!", r.operate(">", x, 0.0))), M <= 0)
    np.testing.assert_array_equal(K.eval(r.operate("==", x, M)), np.full((2, 3), True))


@pytest.mark.parametrize(
    ("subscripts", "expected"),
    [
        ([1.0, None], M[0]),
        ([None, 3], M[:, 2]),
        ([None, np.array([2, 3])], M[:, 1:]),
        ([np.array([2.0, 1.0]), np.array([3.0, 1.0])], M[[1, 0]][:, [2, 0]]),
        ([None, -2.0], M[:, [0, 2]]),
        ([None, np.array([True, False, True])], M[:, [0, 2]]),
        ([None, np.array([], np.int32)], M[:, :0]),
    ],
)
def test_subscripts(subscripts, expected):
    found = K.eval(r.subset(K.variable(M), subscripts))
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_subscripts_that_are_refused():
    x = K.placeholder(shape=(None, 3))
    for subscripts, message in [
        ([1.0], "2 axes and takes as many"),
        ([None, 4.0], "out of bounds"),
        ([None, 0.0], "from 1 up"),
        ([None, 1.5], "whole numbers"),
        ([None, np.array([1, -1])], "all negative"),
        ([-1.0, None], "unknown size"),
        ([None, np.array([True])], "1 truth values for an axis of 3 elements"),
    ]:
        with pytest.raises(IndexError, match=message):
            r.subset(x, subscripts)
    with pytest.raises(TypeError, match="k_gather"):
        r.subset(x, [None, K.constant(1)])


def test_an_external_backend_need_not_tell_its_parameters(monkeypatch):
    monkeypatch.setattr(K, "dot", max)  # A builtin without a signature.
    assert r.call("dot", [1.0, 2.0], {}) == 2.0


def test_functions_with_parameters_by_position_only():
    assert r.call("py_sum", [], {"iterable": np.array([1.0, 2.0]), "start": 3.0}) == 6.0


def test_a_list_of_operands_is_as_many_arguments():
    """R gives them as one list, or one by one."""
    letters = "ij,kj->ik"
    for args, kwargs in (
        ([letters, M, M], {}),
        ([letters], {"operands": [M, M]}),
        ([letters], {"operands": {"a": M, "b": M}}),
    ):
        np.testing.assert_allclose(r.call("einsum", args, kwargs), M @ M.T, rtol=1e-6)
    found = r.call("einsum", [], {"subscripts": "ij->", "operands": M})
    assert found == pytest.approx(M.sum())
