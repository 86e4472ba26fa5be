"""Shape algebra and promotion of dtypes, and which unknown sizes are known to be equal."""

import gc
import itertools
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from backplane.core import shapes
from backplane.core.graph import Graph, Placeholder, constant, toposort
from backplane.core.sizes import assuming, origin, same_shape, tie
from backplane.core.spec import DTYPES, FLOATS, Spec, bits, promote
from backplane.core.windows import Window
from backplane.ops import (
    control,
    convolution,
    creation,
    elementwise,
    groups,
    indexing,
    linear,
    pooling,
    reduction,
    shaping,
)
from backplane.ops.autodiff import gradients
from backplane.ops.creation import dim
from core.evaluate import leaf, value

size = st.none() | st.integers(0, 4)


@given(mutually_broadcastable_shapes(num_shapes=3))
def test_broadcast_is_numpys(case):
    assert shapes.broadcast(*case.input_shapes) == np.broadcast_shapes(*case.input_shapes)


@given(mutually_broadcastable_shapes(num_shapes=2), st.data())
def test_broadcast_of_unknown_sizes_promises_nothing_wrong(case, data):
    real = np.broadcast_shapes(*case.input_shapes)
    hidden = [
        tuple(None if data.draw(st.booleans()) else n for n in shape) for shape in case.input_shapes
    ]
    found = shapes.broadcast(*hidden)
    assert len(found) == len(real)
    assert all(n is None or n == m for n, m in zip(found, real, strict=True))


def test_broadcast_refuses_as_numpy():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2,\) do not broadcast"):
        shapes.broadcast((2, 3), (2,))


@given(
    n=st.integers(0, 6),
    start=st.none() | st.integers(-8, 8),
    stop=st.none() | st.integers(-8, 8),
    step=st.integers(1, 3),
)
def test_slice_size_is_pythons(n, start, stop, step):
    assert shapes.slice_size(n, start, stop, step) == len(range(n)[start:stop:step])
    assert shapes.slice_size(None, start, stop, step) is None


@given(
    n=st.integers(1, 9),
    k=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    ends=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_window_counts_the_places_of_a_window(n, k, stride, dilation, ends):
    whole = n + sum(ends)
    span = (k - 1) * dilation + 1
    places = len(range(0, whole - span + 1, stride))
    assert Window(k, stride, dilation, ends).count(n) == places
    assert Window(k, stride, dilation, "same").count(n) == -(-n // stride)


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        ((2, 3), (6,), (6,)),
        ((2, 3), (3, -1), (3, 2)),
        ((None, 3), (-1,), (None,)),
        ((None, 3), (3, None), (3, None)),
        ((0, 3), (-1, 3), (0, 3)),
        ((), (1, 1), (1, 1)),
    ],
)
def test_reshape(shape, target, expected):
    assert shapes.reshape(shape, target) == expected


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ((4,), r"\(6 elements\) to \(4,\) \(4 elements\)"),
        ((4, -1), r"cannot reshape \(2, 3\) \(6 elements\) to \(4, -1\)"),
        ((-1, -1), "more than one -1"),
    ],
)
def test_reshape_refusals(target, message):
    with pytest.raises(ValueError, match=message):
        shapes.reshape((2, 3), target)


def test_axes():
    assert shapes.normalize_axes(None, 3) == (0, 1, 2)
    assert shapes.normalize_axes(-1, 3) == (2,)
    assert shapes.normalize_axes([-1, 0], 3) == (0, 2)
    with pytest.raises(ValueError, match="axis 3 is out of range for a tensor with 3 axes"):
        shapes.normalize_axes((0, 3), 3)
    with pytest.raises(ValueError, match="names an axis twice"):
        shapes.normalize_axes((1, -2), 3)
    for axes in ((1, 0), (0, 0), (-1,), (2,)):
        with pytest.raises(ValueError, match="flip: axes"):
            shapes.check_axes("flip", axes, 2)


@given(st.lists(size, max_size=4), st.data())
def test_reduce_is_numpys(shape, data):
    axes = tuple(sorted(data.draw(st.sets(st.sampled_from(range(len(shape))))))) if shape else ()
    real = np.zeros([2 if n is None else n for n in shape])
    for keepdims in (False, True):
        found = shapes.reduce(shape, axes, keepdims)
        expected = np.sum(real, axis=axes, keepdims=keepdims).shape
        assert all(n is None or n == m for n, m in zip(found, expected, strict=True))


def test_promotion_is_commutative_and_keeps_floats_narrow():
    for a, b in itertools.product(sorted(DTYPES), repeat=2):
        found = promote(a, b)
        assert found == promote(b, a)
        assert found in DTYPES
        if (a in FLOATS) != (b in FLOATS):
            assert found in (a, b)
            assert found in FLOATS
        elif a != b and "bfloat16" not in (a, b) and (a in FLOATS) == (b in FLOATS):
            assert bits(found) >= max(bits(a), bits(b))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "bool", "uint8", "float32"])
def test_promotion_to_itself(dtype):
    assert promote(dtype, dtype) == dtype


# --- which sizes are equal ------------------------------------------------------------------------


def test_the_origin_of_a_size_is_followed_through_operations():
    x, w = leaf(None, None, 4), leaf(4, 5)
    flat = shaping.reshape(x, shape=(-1, 4))
    assert origin(flat, 0) == (flat, 0)
    y = elementwise.tanh(elementwise.add(x, leaf(4)))
    y = shaping.transpose(y, perm=(1, 0, 2))
    assert origin(y, 0) == (x, 1)
    assert origin(y, 1) == (x, 0)
    y = reduction.max(y, axes=(0,), keepdims=False)
    y = linear.matmul(y, w, transpose_x=False, transpose_y=False)
    assert origin(y, 0) == (x, 0)
    y = shaping.concat(y, y, axis=1)
    y = indexing.slice(y, slices=((None, None, 1), (2, None, 1)))
    y = shaping.squeeze(shaping.expand_dims(y, axes=(0,)), axes=(0,))
    y = shaping.reshape(y, shape=(-1, 2, 4))
    assert origin(y, 0) == (x, 0)
    assert origin(shaping.broadcast_like(leaf(4), x), 1) == (x, 1)
    assert origin(indexing.gather(w, leaf(None, dtype="int32"), axis=0), 0)[1] == 0


def test_the_origin_of_a_size_given_as_operand():
    x = leaf(None, 3)
    y = shaping.reshape(leaf(None, None), dim(x, axis=0), shape=(None, 3))
    assert same_shape(x, y)
    assert not same_shape(x, leaf(None, 3))


def test_a_broadcast_of_two_sizes_is_neither():
    x, y = leaf(None), leaf(None)
    z = elementwise.add(x, y)
    assert origin(z, 0) == (z, 0)
    assert same_shape(elementwise.add(x, x), x)
    # A known 1 has no say.
    assert origin(elementwise.add(x, leaf(1)), 0) == (x, 0)


def test_a_reversed_convolution_keeps_its_batch():
    x, kernel = leaf(None, 5, 5, 2), leaf(3, 3, 2, 4)
    y = convolution.conv(x, kernel, strides=(1, 1), padding="same", dilation=(1, 1), groups=1)
    assert origin(y, 0) == (x, 0)


def test_each_result_of_several_has_sizes():
    x, gamma = leaf(None, 4, 4, 2), leaf(2)
    window = {"pool": (2, 2), "strides": (2, 2), "padding": "valid"}
    for y in pooling.max_pool(x, **window):
        assert origin(y, 0) == (x, 0)
    results = groups.normalize(x, gamma, gamma, axes=(1, 2), epsilon=1e-3)
    dx, *others = groups.normalize_grad(x, x, results[1], results[3], gamma, axes=(1, 2))
    assert all(origin(y, 0) == (x, 0) for y in (*results, dx))
    assert [t.spec.shape for t in others] == [(2,), (2,)]


def test_the_positions_along_an_axis_are_as_many():
    x, zero, one = leaf(None, 3), *[constant(n, "int32") for n in (0, 1)]
    counted = [creation.arange(n, dim(x, axis=0), one, dtype="int32") for n in (zero, one)]
    assert [origin(t, 0)[0] for t in counted] == [x, counted[1]]


def test_under_an_assumption_loops_hand_on_the_sizes_of_their_operands():
    x, mask, start = leaf(None, 2, 3), leaf(None, 2), leaf(None, 3)
    rows = [shaping.transpose(t, perm=(1, 0, *range(2, t.ndim))) for t in (x, mask)]

    def step(state, items):
        h = elementwise.mul(elementwise.add(items[0], state[0]), column(items[1]))
        return [h], [h]

    (last,), (stack,) = control.scan(step, [start], rows)
    assert not same_shape(last, start)
    with assuming([x, mask, start]):
        assert same_shape(last, start)
        assert origin(stack, 1) == origin(mask, 0) == (x, 0)
    assert not same_shape(last, start)


def test_sizes_are_followed_through_many_loops_without_recursion():
    x, start = leaf(None, 3), leaf(None, 3)
    last = start
    for _ in range(300):
        (last,), _ = control.scan(
            lambda s, _: ([elementwise.add(s[0], x)], []), [last], [], length=1
        )
    with assuming([x, start]):
        assert origin(last, 0) == (x, 0)


def column(t):
    return shaping.expand_dims(t, axes=(1,))


def test_sizes_of_deep_graphs_are_followed_without_recursion():
    x = y = leaf(None)
    for _ in range(5000):
        y = elementwise.tanh(y)
    assert same_shape(x, y)


def test_tied_sizes_are_equal():
    x = leaf(None, 2)
    inner = Placeholder(Spec((None, 2), "float64"))
    assert not same_shape(x, inner)
    inner = Placeholder(Spec((None, 2), "float64"))
    tie(inner, 0, elementwise.neg(x), 0)
    assert same_shape(x, inner)


def test_sizes_inside_a_loop_are_those_handed_to_it():
    """A recurrent step of unknown batch size needs no look at sizes in its gradient."""
    x, w = leaf(7, None, 4), leaf(4, 4)
    start = reduction.sum(shaping.zeros_like(x), axes=(0,), keepdims=False)

    def step(state, items):
        h = elementwise.tanh(items[0] @ w + state[0] @ w)
        return [h], [h * items[0]]

    finals, ys = control.scan(step, [start], [x])
    found = gradients([*finals, *ys], [x, w])
    assert "sum_to" not in names_inside(found)


def test_a_loop_that_changes_an_unknown_size_is_not_trusted():
    x, start = leaf(3, 2), leaf(None, 2)

    def step(state, items):
        grown = shaping.concat(state[0], shaping.expand_dims(items[0], axes=(0,)), axis=0)
        return [grown], []

    (result,), _ = control.scan(step, [start], [x])
    assert result.shape == (None, 2)
    found = value(result, {x: np.ones((3, 2)), start: np.zeros((1, 2))})
    np.testing.assert_array_equal(found, [[0, 0], [1, 1], [1, 1], [1, 1]])


def names_inside(outputs):
    """Names of all primitives, those in bodies included."""
    found = []
    for t in toposort(outputs):
        if t.op is not None:
            found.append(t.op.name)
            for p in t.params.values():
                found += names_inside(p.outputs) if isinstance(p, Graph) else []
    return found


def test_origins_keep_nothing_alive():
    x = leaf(None, 2)
    y = elementwise.tanh(x)
    assert origin(y, 0) == (x, 0)
    seen = [weakref.ref(x), weakref.ref(y)]
    del x, y
    gc.collect()
    assert [r() for r in seen] == [None, None]


@settings(max_examples=40, deadline=None)
@given(st.lists(size, min_size=1, max_size=4))
def test_same_shape_of_leaves(shape):
    x = leaf(*shape)
    assert same_shape(x, x)
    assert same_shape(x, leaf(*shape)) == (None not in shape)


@given(mutually_broadcastable_shapes(num_shapes=1))
def test_broadcast_axes_are_those_to_sum_over(case):
    (shape,), whole = case.input_shapes, case.result_shape
    leading, stretched = shapes.broadcast_axes(shape, whole)
    summed = np.ones(whole).sum(axis=(*leading, *stretched), keepdims=True)
    assert summed.squeeze(leading).shape == shape
