"""Tensors and graphs: what they are, how they are walked, freed and named; declaring primitives."""

import copy
import gc
import weakref

import numpy as np
import pytest

from backplane.core import primitive as declaring
from backplane.core.graph import (
    Graph,
    constant,
    depends_on,
    rebuild,
    sorted_once,
    substitute,
    toposort,
)
from backplane.core.registry import PRIMITIVES, primitive
from backplane.core.spec import Spec
from backplane.core.trace import call, close, trace
from backplane.core.traits import Memory
from backplane.ops import creation, elementwise, reduction, shaping
from backplane.ops.autodiff import gradients
from core.evaluate import leaf, value


def test_a_tensor_knows_shape_and_dtype():
    x = leaf(None, 3, dtype="float32")
    y = elementwise.tanh(x)
    assert y.shape == (None, 3)
    assert y.shape.as_list() == [None, 3]
    assert y.ndim == y.shape.ndims == 2
    assert not y.shape.is_fully_defined()
    assert y.get_shape() == y._keras_shape == (None, 3)
    assert y.dtype == "float32"
    assert y.dtype.name == y.dtype.base_dtype == "float32"
    assert y.dtype.is_floating
    assert y.name.startswith("tanh_")
    assert "shape=(None, 3) dtype=float32" in repr(y)


def test_equality_is_identity_so_that_tensors_can_be_members_and_keys():
    x, y = leaf(), leaf()
    assert x in [y, x]
    assert (x == y) is False
    assert len({x, y, x}) == 2
    assert None not in [x]
    assert copy.copy(x) is copy.deepcopy(x) is x


def test_foreign_attributes_are_accepted():
    x = leaf()
    x._keras_history = ("layer", 0, 0)
    assert x._keras_history[0] == "layer"


def test_a_symbolic_tensor_has_no_value_yet():
    x = leaf(2)
    for use in (bool, float, int, np.asarray):
        with pytest.raises(TypeError, match="symbolic"):
            use(x)


def test_numpy_leaves_its_operators_to_the_tensor():
    x = leaf(2)
    for result in (np.ones(2) + x, np.float64(2) * x, np.ones(2) < x):
        assert result.op is not None


def test_toposort_gives_inputs_before_users_and_each_node_once():
    x = leaf()
    a = elementwise.exp(x)
    b = elementwise.add(a, a)
    c = elementwise.mul(b, a)
    order = toposort([c, a])
    assert order == [x, a, b, c]
    assert toposort([c], stop=[b]) == [b, x, a, c]
    assert toposort([]) == []


def test_deep_graphs_are_walked_without_recursion():
    x = y = leaf(2)
    for _ in range(10_000):
        y = elementwise.tanh(y)
    assert len(toposort([y])) == 10_001
    (g,) = gradients([y], [x])
    assert len(toposort([g])) > 20_000
    (copied,) = substitute([y], {x: leaf(2)})
    assert copied is not y


def test_unreferenced_tensors_are_freed():
    x = leaf(2)
    y = elementwise.exp(x)
    seen = weakref.ref(y)
    gradients([y], [x])
    del y
    gc.collect()
    assert seen() is None


def test_substitute_rebuilds_only_what_changes():
    x, y = leaf(3), leaf(3)
    kept = elementwise.exp(y)
    changed = elementwise.add(elementwise.exp(x), kept)
    new = leaf(1)
    (result,) = substitute([changed], {x: new})
    assert result.inputs[1] is kept
    assert result.inputs[0].inputs == (new,)
    assert result.shape == (3,)
    assert substitute([kept], {x: new}) == [kept]


def test_rebuild_infers_the_spec_again():
    y = elementwise.exp(leaf(3))
    assert rebuild(y, (leaf(5),)).shape == (5,)
    assert rebuild(y, (leaf(5),), keep_spec=True).shape == (3,)


def test_depends_on():
    x, y = leaf(), leaf()
    a, b = elementwise.exp(x), elementwise.exp(y)
    c = elementwise.add(a, b)
    assert depends_on([c], [x]) == {x, a, c}


def test_a_node_remembers_the_users_line():
    y = elementwise.exp(leaf())
    assert y.where.filename == __file__
    assert y.where.function == "test_a_node_remembers_the_users_line"
    assert "y = elementwise.exp(leaf())" in str(y.where)


def test_a_traced_graph_is_closed_over_what_surrounds_it():
    outer = leaf(2)
    graph, captured, keys = trace(
        lambda x: [elementwise.mul(x, elementwise.exp(outer))], [Spec((2,), "float64")]
    )
    assert keys == []
    # What does not depend on the inputs is computed outside.
    assert [t.op.name for t in captured] == ["exp"]
    assert len(graph.inputs) == 2
    assert set(toposort(graph.outputs)).isdisjoint({outer, *captured})
    (result,) = call(graph, constant(np.array([1.0, 2.0])), *captured)
    np.testing.assert_allclose(value(result, {outer: [0.0, 0.0]}), [1, 2])
    assert "float64[2]" in repr(graph)


def test_numbers_stay_inside_a_closed_graph():
    x = leaf()
    mark = constant(0).serial
    graph, captured, _ = close([x * 2.0], [x], mark)
    assert captured == []
    assert isinstance(graph, Graph)


# --- declaring ------------------------------------------------------------------------------------


def test_a_name_is_declared_once():
    with pytest.raises(ValueError, match="'tanh' is declared twice"):
        declaring.primitive(name="tanh", memory=Memory.FRESH)(lambda x: x)


def test_an_unknown_primitive_is_answered_with_similar_ones():
    with pytest.raises(KeyError, match="log_softmax"):
        primitive("log_sotfmax")


def test_every_primitive_says_what_it_means():
    for name in PRIMITIVES:
        assert "." in PRIMITIVES[name].doc, name


def test_several_results():
    values, positions = reduction.top_k(leaf(2, 5), k=3)
    assert values.shape == positions.shape == (2, 3)
    assert (values.dtype, positions.dtype) == ("float64", "int32")
    assert values.inputs[0] is positions.inputs[0]


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: elementwise.exp(leaf(dtype="int32")), TypeError, "exp: x must hold floats"),
        (lambda: elementwise.div(leaf(), leaf(dtype="int32")), TypeError, "float64 and y int32"),
        (lambda: elementwise.where(leaf(), leaf(), leaf()), TypeError, "where: c must hold bools"),
        (lambda: elementwise.cast(leaf(), dtype="complex64"), ValueError, "unknown dtype"),
        (lambda: reduction.sum(leaf(2), axes=(), keepdims=False), ValueError, "not be empty"),
        (lambda: reduction.max(leaf(2), axes=(1,), keepdims=False), ValueError, r"max: axes"),
        (lambda: reduction.top_k(leaf(2), k=3), ValueError, "k = 3 does not fit"),
        (lambda: creation.full(shape=(None,), value=0, dtype="int32"), ValueError, "got 0 of them"),
        (lambda: shaping.reshape(leaf(2), leaf(), shape=(None,)), TypeError, "integer scalar"),
        (lambda: creation.dim(leaf(2), axis=1), ValueError, "axis 1 is out of range"),
    ],
)  # fmt: skip
def test_a_spec_rule_names_what_is_wrong(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_inside_of_sorted_once_an_order_is_kept_until_another_graph_comes():
    x = leaf()
    y = elementwise.tanh(x)
    z = elementwise.mul(y, x)
    with sorted_once():
        first = toposort([z])
        assert toposort([z], stop=[x]) is first  # A leaf ends nothing early.
        assert toposort([z], stop=[y]) == [y, x, z]
        assert toposort([y]) == [x, y]
        assert toposort([z]) == first == [x, y, z]
    assert toposort([z]) is not first


def test_no_graph_is_kept_after_sorted_once():
    y = elementwise.tanh(leaf())
    gone = weakref.ref(y)
    with sorted_once():
        toposort([y])
    del y
    assert gone() is None
