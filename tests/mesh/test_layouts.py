"""K.set_mesh and K.shard on one device: what they check, and that nothing else happens."""

import asyncio
import pickle
import threading

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane.core.mesh import Mesh, feed_layout, layout_of, set_default_mesh
from backplane.core.mesh import check_layout as check
from backplane.ops import effects
from documents.covering import covers

GRID = Mesh.of({"batch": 4, "model": 2})


@pytest.fixture(autouse=True)
def no_mesh_stays():
    yield
    set_default_mesh(None)


@covers("shard", spec=True, gradient=True)
def test_without_a_mesh_a_layout_changes_nothing(engine):
    x = K.shard(K.placeholder((None, 3)), ("batch", None))
    w = K.shard(K.variable(np.arange(6.0).reshape(3, 2)), (None, "model"))
    y = K.shard(K.dot(x, w), ("batch", "model"))
    assert K.int_shape(y) == (None, 2)
    assert K.dtype(y) == "float32"
    (slope,) = K.gradients(K.sum(K.square(y)), [w])
    f = K.function([x], [y, slope], updates=[(w, w - slope)])
    values = np.array([[1.0, 2.0, 3.0]])
    before = K.get_value(w)
    found, slope = f([values])
    np.testing.assert_allclose(found, values @ before)
    np.testing.assert_allclose(slope, 2 * values.T @ (values @ before))
    np.testing.assert_allclose(K.get_value(w), before - slope)
    np.testing.assert_array_equal(K.shard(np.ones(2), ("batch",)), [1, 1])


@covers("set_mesh", "get_mesh")
def test_a_mesh_of_one_device_serves_on_every_engine(engine):
    with K.set_mesh({"batch": 1, "model": 1}):
        assert K.get_mesh() == {"batch": 1, "model": 1}
        x = K.placeholder((None,))
        f = K.function([x], [K.shard(2 * x, ("batch",))])
    assert K.get_mesh() is None
    np.testing.assert_array_equal(f([[1.0, 2.0, 3.0]])[0], [2, 4, 6])


def test_an_engine_of_one_device_refuses_more(engine):
    if "mesh" in engine.capabilities:
        size = 10_000  # More than any machine has.
    else:
        size = 2
    with pytest.raises(ValueError, match=rf"K\.set_mesh: .*\{{'batch': {size}\}}"):
        K.set_mesh({"batch": size})
    assert K.get_mesh() is None


def test_processes_of_torchrun_on_another_engine_are_told_so(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    with K.engine("numpy"), pytest.raises(ValueError, match=r"K\.set_mesh: .*KERAS_BACKEND=torch$"):
        K.set_mesh({"batch": 2})
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    with K.engine("numpy"), pytest.raises(ValueError, match=r"`backplane docs scaling`\)$"):
        K.set_mesh({"batch": 2})


def test_a_mesh_is_for_the_process_or_for_a_block():
    K.set_mesh({"batch": 1})
    found = []
    thread = threading.Thread(target=lambda: found.append(K.get_mesh()))
    thread.start()
    waiting.joined(thread)
    assert found == [{"batch": 1}]
    with K.set_mesh({"model": 1}):
        assert K.get_mesh() == {"model": 1}
        with K.set_mesh(None):
            assert K.get_mesh() is None
        thread = threading.Thread(target=lambda: found.append(K.get_mesh()))
        thread.start()
        waiting.joined(thread)
    assert found[1] == K.get_mesh() == {"batch": 1}
    K.set_mesh(None)
    assert K.get_mesh() is None


def test_tasks_have_meshes_of_their_own():
    async def inside(name):
        with K.set_mesh({name: 1}):
            await asyncio.sleep(0)
            return K.get_mesh()

    async def both():
        return await asyncio.gather(inside("a"), inside("b"))

    assert asyncio.run(both()) == [{"a": 1}, {"b": 1}]


@pytest.mark.parametrize(
    ("axes", "error", "words"),
    [
        (8, TypeError, "must be a dict from names to sizes"),
        ({"batch": 1.5}, TypeError, "the size of 'batch'"),
        ({3: 1}, TypeError, "the name of an axis must be a string"),
        ({}, ValueError, "at least one axis"),
        ({"batch": 0}, ValueError, "size of axis 'batch' must be at least 1"),
    ],
)
def test_bad_meshes(axes, error, words):
    with pytest.raises(error, match=rf"K\.set_mesh: .*{words}"):
        K.set_mesh(axes)


@pytest.mark.parametrize(
    ("layout", "error", "words"),
    [
        ("batch", TypeError, "must be a tuple with an entry per axis"),
        (("batch", 3), TypeError, "an entry of layout is the name of a mesh axis"),
        (("batch",), ValueError, "has 1 entries for 2 axes"),
        (("batch", "batch"), ValueError, "names the mesh axis 'batch' twice"),
        ((("batch", "model"), "model"), ValueError, "names the mesh axis 'model' twice"),
    ],
)
def test_bad_layouts(layout, error, words):
    with pytest.raises(error, match=rf"K\.shard: .*{words}"):
        K.shard(K.zeros((2, 2)), layout)


def test_axes_that_the_mesh_lacks():
    with (
        K.set_mesh({"batch": 1}),
        pytest.raises(ValueError, match=r"K\.shard: no axis of the mesh .*'batch'.*called 'rows'"),
    ):
        K.shard(K.zeros((2,)), ("rows",))


def test_sizes_that_do_not_divide():
    layout = layout_of((("batch", "model"), None), 2, "here")
    assert layout == (("batch", "model"), ())
    check(layout, (16, 3), GRID, "here")
    check(layout, (None, 3), GRID, "here")
    with pytest.raises(
        ValueError, match=r"here: axis 0 has 12 elements.* 8 equal parts by 'batch'"
    ):
        check(layout, (12, 3), GRID, "here")


def test_how_values_are_fed():
    split, whole = (("batch",), ()), ((), ())
    assert feed_layout(None, (8, 3), None, GRID, "here") == split
    assert feed_layout(None, (7, 3), None, GRID, "here") == whole  # the last batch
    assert feed_layout(None, (8, 3), 8, GRID, "here") == whole
    assert feed_layout(None, (8, 3), None, Mesh.of({"model": 2}), "here") == whole
    assert feed_layout(None, (), None, GRID, "here") == ()
    assert feed_layout(((), ("model",)), (7, 4), None, GRID, "here") == ((), ("model",))
    with pytest.raises(ValueError, match="here: axis 0 has 7 elements"):
        feed_layout(split, (7, 3), None, GRID, "here")


def test_gradients_lie_as_the_values():
    x = K.variable(np.ones((4, 2)))
    (slope,) = K.gradients(K.sum(K.square(K.shard(x * 1.0, ("batch", None)))), [x])
    found = []
    waiting = [slope]
    while waiting:
        node = waiting.pop()
        found += [node.params["layout"]] if node.op is effects.shard else []
        waiting += node.inputs
    assert found
    assert set(found) == {(("batch",), ())}


def test_a_layout_is_pickled_with_the_variable():
    w = K.shard(K.zeros((4, 2)), ("batch", None))
    assert pickle.loads(pickle.dumps(w)).layout == (("batch",), ())
