"""`K.plot_graph`: what is in the pictures, and where."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from backplane import backend as K
from backplane.views.drawing import roots_of_function, roots_of_tensors
from backplane.views.layout import GAP, Stretch, _apart, laid_out, opened, placed
from backplane.views.scene import MANY, Scene
from documents.covering import covers

SVG = "{http://www.w3.org/2000/svg}"


def network(layers: int = 2):
    """A function with scopes, gradients and updates."""
    x = K.placeholder((None, 4), name="x")
    h, weights = x, []
    for i in range(layers):
        with K.name_scope(f"layer_{i}"):
            w = K.variable(np.eye(4), name="w")
            weights.append(w)
            h = K.tanh(K.dot(h, w))
    loss = K.mean(K.square(h))
    updates = [
        K.update_sub(w, 0.1 * g) for w, g in zip(weights, K.gradients(loss, weights), strict=True)
    ]
    return K.function([x], [loss], updates=updates, name="network")


def titles(box):
    return [item.title for item in box.items if item.kind not in ("in", "out")]


def texts(svg: str) -> list[str]:
    return [t.text or "" for t in ET.fromstring(svg).iter(f"{SVG}text")]


def test_scopes_gradients_and_updates_are_boxes_and_variables_lie_in_their_scopes():
    scene = Scene(roots_of_function(network()._function))
    expected = {"x", "layer_0", "layer_1", "gradients", "updates", "output 0"}
    assert expected <= set(titles(scene.root))
    kinds = {item.title: item.kind for item in scene.root.items}
    assert kinds["gradients"] == "gradient"
    assert kinds["updates"] == "state"
    layer = next(item.box for item in scene.root.items if item.title == "layer_0")
    assert titles(layer) == ["layer_0/w", "matmul", "tanh"]


@covers("plot_graph")
def test_edges_tell_dtype_and_shape_and_items_the_users_lines():
    svg = K.plot_graph(network())
    assert "float32 (?, 4)" in texts(svg)
    told = [t.text or "" for t in ET.fromstring(svg).iter(f"{SVG}title")]
    assert any("test_plot_graph.py" in t and "K.tanh(K.dot(h, w))" in t for t in told)


def test_loops_and_branches_have_their_bodies_inside():
    x = K.placeholder((2, 3, 4))
    last, _, _ = K.rnn(lambda i, s: (K.tanh(i + s[0]), [i]), x, [x[:, 0] * 0.0])
    y = K.switch(K.sum(last) > 0.0, lambda: K.log(last), lambda: K.exp(last))
    root = Scene(roots_of_tensors([y])).root
    boxes = {item.title: item.box for item in root.items if item.box}
    assert "tanh" in titles(boxes["scan"])
    assert set(titles(boxes["cond"])) == {"then", "orelse"}
    svg = K.plot_graph(y)
    assert {"tanh", "log", "exp", "then", "orelse"} <= set(texts(svg))


def test_every_edge_of_an_open_box_ends_at_a_port():
    scene = Scene(roots_of_function(network()._function))
    for item in scene.root.items:
        for edge in scene.root.edges:
            if item.box is not None and scene.root.items[edge.target] is item:
                assert edge.target_port in item.box.ports
            if item.box is not None and scene.root.items[edge.source] is item:
                assert f"out {edge.source_port}" in item.box.ports


@pytest.mark.parametrize("most", [1, 60, 10_000])
def test_no_items_overlap_whatever_is_open(most):
    found = laid_out(Scene(roots_of_function(network(6)._function)).root)

    def check(box):
        rects = box.rects
        for i, (x, y, w, h) in enumerate(rects):
            assert w / 2 <= x <= box.width - w / 2 + 1
            for u, v, a, b in rects[:i]:
                assert abs(x - u) >= (w + a) / 2 - 0.01 or abs(y - v) >= (h + b) / 2 - 0.01
        for inner in box.inner.values():
            check(inner)

    check(placed(found, opened(found, most)))


def test_edges_pass_beside_open_boxes():
    found = laid_out(Scene(roots_of_function(network(4)._function)).root)
    whole = placed(found, opened(found, 60))
    assert whole.inner
    for edge, bends in zip(found.box.edges, whole.bends, strict=True):
        for i in whole.inner.keys() - {edge.source, edge.target}:
            x, y, width, height = whole.rects[i]
            for u, v in bends:
                assert abs(u - x) >= width / 2 or abs(v - y) >= height / 2 - 0.01


def test_a_row_keeps_its_order_and_room_and_moves_as_little_as_it_can():
    assert _apart([0.0, 100.0], [(5.0, 5.0)] * 2) == [0.0, 100.0]
    room = 10.0 + GAP
    assert _apart([50.0, 50.0], [(5.0, 5.0)] * 2) == [50.0 - room / 2, 50.0 + room / 2]
    assert _apart([9.0, 0.0, 500.0], [(0.0, 0.0), (0.0, 8.0), (0.0, 0.0)])[2] == 500.0


def test_stretching_keeps_the_order_and_makes_room():
    stretch = Stretch([(10, 20, 50), (15, 25, 30)])
    values = [stretch(v) for v in range(40)]
    assert values == sorted(values)
    assert stretch(20) - stretch(10) >= 50
    assert stretch(5) == 5


def test_a_graph_of_two_thousand_nodes_is_folded_until_it_can_be_read():
    x = K.placeholder((None, 8), name="x")
    t = x
    for _ in range(500):
        t = K.tanh(t * 1.1) + x
        t = t - K.mean(t)
    root = Scene(roots_of_tensors([t])).root
    assert root.count() > 2000

    def check(box):
        assert len(titles(box)) <= MANY
        for item in box.items:
            if item.box:
                check(item.box)

    check(root)
    svg = K.plot_graph(t)
    assert len(texts(svg)) < 400


def test_files_of_each_kind(tmp_path):
    f = network()
    for ending in ("svg", "png", "html"):
        K.plot_graph(f, to_file=tmp_path / f"graph.{ending}")
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    ET.parse(tmp_path / "graph.svg")
    page = (tmp_path / "graph.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert "layer_0" in [item["title"] for item in data["layout"]["items"]]
    assert "http" not in page.replace("http://www.w3.org/", "")  # It works without a network.


def test_text_of_the_graph_cannot_leave_its_place(tmp_path):
    x = K.placeholder((1,), name="</script><b>")
    K.plot_graph(K.exp(x), to_file=tmp_path / "graph.html")
    page = (tmp_path / "graph.html").read_text(encoding="utf-8")
    assert "</script><b>" not in page
    ET.fromstring(K.plot_graph(K.exp(x)))


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(TypeError, match=r"^K\.plot_graph: x must be a tensor, .*, got int$"):
        K.plot_graph(3)
    with pytest.raises(ValueError, match=r"^K\.plot_graph: to_file must end in one of \.svg, "):
        K.plot_graph(K.placeholder((1,)), to_file="graph.pdf")


def test_a_model_of_keras_3_is_drawn():
    keras = pytest.importorskip("keras")
    x = keras.Input((4,))
    h = keras.layers.Dense(3, name="dense")(x)
    model = keras.Model(x, keras.layers.Add(name="sum")([h, h]), name="net")
    assert {"dense", "sum", "Dense", "float32 (?, 3)"} <= set(texts(K.plot_graph(model)))
