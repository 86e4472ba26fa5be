"""Chains of element-wise nodes in blocks and in place: the numbers, the memory, the text."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backplane import backend as K
from backplane import engines
from backplane.compile.codegen import tiling
from backplane.compile.program import clear_programs
from backplane.core.graph import Tensor
from backplane.core.registry import primitive
from backplane.core.source import Source, marked
from backplane.engines import kernels

rng = np.random.default_rng(3)


INSTALLED = [name for name in engines.names() if engines.installed(name)]
WRITERS = [name for name in INSTALLED if "blocks" in engines.get(name).capabilities]


@pytest.fixture(autouse=True, params=WRITERS)
def writer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The engines whose programs compute large arrays in blocks, here from 370,000 elements on."""
    for name in WRITERS:
        monkeypatch.setitem(kernels.FORCED, f"{name}.blocks", 370_000)
    with K.engine(request.param):
        yield request.param


def limits(monkeypatch: pytest.MonkeyPatch, large: int, block: int) -> None:
    """Chains from `large` elements on, in blocks of `block` bytes."""
    for name in WRITERS:
        monkeypatch.setitem(kernels.FORCED, f"{name}.blocks", large)
    monkeypatch.setattr(tiling, "BLOCK", block)
    clear_programs()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of a few elements."""
    limits(monkeypatch, 4, 32)
    yield
    clear_programs()


def source(f: Any) -> str:
    """The text of the program of a function that has been called."""
    f([np.ones([n or 2 for n in p.spec.shape], p.spec.dtype) for p in f._function.plan.inputs])
    texts = ["".join(v[2]) for k, v in linecache.cache.items() if k.startswith("<backplane prog")]
    return texts[-1]


def plain_and_blocked(
    build: Callable[[], tuple[list[Tensor], list[Tensor]]], values: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The results with chains switched off, and in tiny blocks."""
    found = []
    for large, block in ((1 << 60, 32), (2, 32)):
        with pytest.MonkeyPatch.context() as patch:
            limits(patch, large, block)
            given_, results = build()
            found.append(K.function(given_, results)([v.copy() for v in values]))
    clear_programs()
    return found[0], found[1]


# --- the same numbers -----------------------------------------------------------------------------

UNARY = ("neg", "abs", "exp", "tanh", "sigmoid", "relu", "softplus", "sqrt", "sign", "floor")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "mul_no_nan", "relu_grad", "tanh_grad")
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "flip": lambda x: primitive("flip")(x, axes=(0,)),
    "transpose": lambda x: K.transpose(K.transpose(x)),
    "slice": lambda x: K.concatenate([x[1:], x[:1]], axis=0),
    "row": lambda x: x * x[:1],
    "column": lambda x: x + K.sum(x, axis=1, keepdims=True),
    "where": lambda x: K.switch(x > 0, x, K.square(x)),
}
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 1.0)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[str, int, int]], list[int], bool]:
    """Steps (name, operand, operand), the steps that are outputs, and whether sizes are known."""
    names = st.sampled_from((*UNARY, *BINARY, *VIEWS))
    steps = [(draw(names), draw(st.integers(0, 99)), draw(st.integers(0, 99))) for _ in range(8)]
    outputs = draw(st.lists(st.integers(0, 99), min_size=1, max_size=4))
    return steps, outputs, draw(st.booleans())


def built(graph: Any, dtype: str) -> tuple[list[Tensor], list[Tensor]]:
    steps, outputs, known = graph
    x, y = (K.placeholder(shape=(6 if known else None, 3), dtype=dtype) for _ in range(2))
    b = K.placeholder(shape=(3,), dtype=dtype)
    if not known:
        y = primitive("mul")(x, K.constant(0.5, dtype))
    tensors: list[Tensor] = [x, y, x + b]
    unsure: set[Tensor] = set()
    """What comes from a maximum or minimum. Where 0 and -0 meet, libraries give one of them: which
    one depends on the place in memory."""
    for name, i, j in steps:
        s, t = tensors[i % len(tensors)], tensors[j % len(tensors)]
        if name == "div" and t in unsure:
            t = primitive("abs")(t)
        operands = (s,) if name in UNARY or name in VIEWS else (s, t)
        tensors.append(VIEWS[name](s) if name in VIEWS else primitive(name)(*operands))
        if name in ("maximum", "minimum") or not unsure.isdisjoint(operands):
            unsure.add(tensors[-1])
    results = [tensors[i % len(tensors)] for i in outputs]
    return ([x, y, b] if known else [x, b]), [*results, K.sum(results[0]), K.max(tensors[-1])]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@settings(max_examples=40, deadline=None)
@given(graph=graphs(), special=st.sampled_from(SPECIAL), seed=st.integers(0, 99))
@example(  # -0 and 0 in a maximum, which is divided by
    graph=([("neg", 0, 0), ("maximum", 0, 3), *[("neg", 0, 0)] * 5, ("div", 2, 4)], [76], False),
    special=0.0,
    seed=0,
)
def test_blocks_give_what_nodes_one_by_one_give(
    dtype: str, graph: Any, special: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    sizes = [(6, 3), (6, 3), (3,)] if graph[2] else [(6, 3), (3,)]
    values = [random.normal(size=s).astype(dtype) for s in sizes]
    values[0][2, 1] = special
    plain, blocked = plain_and_blocked(lambda: built(graph, dtype), values)
    tolerance = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    for p, b in zip(plain, blocked, strict=True):
        assert p.dtype == b.dtype
        assert p.shape == b.shape
        np.testing.assert_allclose(b, p, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reduce", [K.sum, K.mean, K.max, K.min])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(1001,), (7, 13), (3, 5, 7)])
def test_a_reduction_of_everything_ends_a_chain(
    tiny: None, reduce: Any, keepdims: bool, shape: tuple[int, ...]
) -> None:
    x = K.placeholder(shape=shape)
    f = K.function([x], [reduce(K.exp(x) * 2, keepdims=keepdims)])
    assert "append(" in source(f)
    a = rng.normal(size=shape).astype("float32")
    expected = K.eval(reduce(K.constant(np.exp(a) * 2), keepdims=keepdims))
    found = f([a])[0]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_operands_in_another_order_of_memory(tiny: None) -> None:
    x, y = K.placeholder(shape=(6, 5)), K.placeholder(shape=(5, 6))
    f = K.function([x, y], [K.exp(x) * K.transpose(y) + 1])
    a, b = rng.normal(size=(6, 5)), rng.normal(size=(5, 6))
    for order in ("C", "F"):
        given_ = [np.asarray(v, "float32", order=order) for v in (a, b)]
        np.testing.assert_allclose(f(given_)[0], np.exp(a) * b.T + 1, rtol=1e-5)


def test_no_elements(tiny: None) -> None:
    x = K.placeholder(shape=(None, 7))
    f = K.function([x], [K.exp(x) * 2, K.sum(K.exp(x))])
    empty, total = f([np.ones((0, 7), "float32")])
    assert empty.shape == (0, 7)
    assert total == 0


# --- memory ---------------------------------------------------------------------------------------


def test_what_is_fed_and_what_is_held_is_not_written_to(tiny: None) -> None:
    x, v = K.placeholder(shape=(None, 3)), K.variable(np.ones((4, 3)))
    c = np.full((4, 3), 2.0, "float32")
    f = K.function([x], [K.exp(x) * v + c, K.tanh(v) * c * 3])
    a = rng.normal(size=(4, 3)).astype("float32")
    before = a.copy()
    first, second = f([a]), f([a])
    np.testing.assert_array_equal(a, before)
    np.testing.assert_array_equal(c, 2)
    np.testing.assert_array_equal(K.get_value(v), 1)
    for one, other in zip(first, second, strict=True):
        assert not np.shares_memory(one, other)
        np.testing.assert_array_equal(one, other)


def test_a_view_of_a_temporary_keeps_it_from_being_written_to(tiny: None) -> None:
    x = K.placeholder(shape=(5, 4))
    t = K.exp(x)
    row = t[2:3]
    back = primitive("flip")(t, axes=(0,))
    f = K.function([x], [(t * 2 + row) * back, back - t])
    a = rng.normal(size=(5, 4)).astype("float32")
    e = np.exp(a)
    found = f([a])
    np.testing.assert_allclose(found[0], (e * 2 + e[2:3]) * e[::-1], rtol=1e-5)
    np.testing.assert_allclose(found[1], e[::-1] - e, rtol=1e-5, atol=1e-6)


def test_an_output_is_not_overwritten_by_what_is_computed_from_it() -> None:
    x = K.placeholder(shape=(3,))
    y = x * 2
    first, second = K.function([x], [y, y + 1])([np.ones(3, "float32")])
    assert first.tolist() == [2, 2, 2]
    assert second.tolist() == [3, 3, 3]


def test_unknown_sizes_that_may_differ_are_not_written_in_place() -> None:
    x, y = K.placeholder(shape=(None,)), K.placeholder(shape=(None,))
    f = K.function([x, y], [K.exp(x) + K.exp(y)])
    one, three = np.zeros(1, "float32"), np.zeros(3, "float32")
    assert f([one, three])[0].tolist() == [2, 2, 2]
    assert f([three, one])[0].tolist() == [2, 2, 2]


def averaged(shape: tuple[int, ...]) -> tuple[Any, list[Any]]:
    """RMSprop by the tangent of the gradient, and a function of the parameter: updates that no
    kernel of optimizers does.
    """
    g = K.placeholder(shape=shape)
    p, v, a = (K.variable(np.ones(shape)) for _ in range(3))
    new_v = 0.9 * v + 0.1 * K.square(g)
    new_p = p - 0.1 * K.tanh(g) / (K.sqrt(new_v) + 1e-3)
    step = [K.update(v, new_v), K.update(p, new_p), K.update(a, K.tanh(0.9 * a + 0.1 * new_p))]
    return K.function([g], [K.sum(K.square(g))], updates=step), [p, v, a]


def test_updates_in_blocks(tiny: None) -> None:
    f, variables = averaged((5, 7))
    p, v, a = (np.ones((5, 7)) for _ in range(3))
    for _ in range(5):
        g = rng.normal(size=(5, 7)).astype("float32")
        f([g])
        v = 0.9 * v + 0.1 * g**2
        p = p - 0.1 * np.tanh(g) / (np.sqrt(v) + 1e-3)
        a = np.tanh(0.9 * a + 0.1 * p)
        for variable, expected in zip(variables, (p, v, a), strict=True):
            np.testing.assert_allclose(K.get_value(variable), expected, rtol=1e-4)


def test_a_value_that_somebody_holds_is_not_recycled(tiny: None) -> None:
    f, (p, _, _) = averaged((5, 7))
    g = np.ones((5, 7), "float32")
    held = []
    for _ in range(6):
        f([g])
        value = np.asarray(p.values[f._function.plan.engine])
        held.append((value[1:], value[1:].copy()))
    for view, copy in held:
        np.testing.assert_array_equal(view, copy)


def test_new_values_take_turns_in_the_same_memory(tiny: None) -> None:
    f, (p, _, _) = averaged((5, 7))
    seen = set()
    for _ in range(8):
        f([np.ones((5, 7), "float32")])
        seen.add(np.asarray(p.values[f._function.plan.engine]).ctypes.data)
    assert len(seen) == 2


def test_a_call_that_fails_leaves_all_variables_as_they_were(tiny: None) -> None:
    x, n = K.placeholder(shape=(None, 4)), K.placeholder(shape=(None, 4))
    v, w = K.variable(np.ones((6, 4))), K.variable(np.ones((6, 4)))
    steps = [K.update(v, K.exp(v) * 2 - 1), K.update(w, K.exp(v) * w + x + n)]
    f = K.function([x, n], [K.sum(v)], updates=steps)
    ones = np.ones((6, 4), "float32")
    f([ones, ones])
    before = [K.get_value(v), K.get_value(w)]
    with pytest.raises(ValueError, match="broadcast"):
        f([ones, np.ones((5, 4), "float32")])
    for variable, value in zip((v, w), before, strict=True):
        np.testing.assert_array_equal(K.get_value(variable), value)


# --- the text -------------------------------------------------------------------------------------


def test_temporaries_are_written_in_place() -> None:
    x, w = K.placeholder(shape=(8, 8)), K.variable(np.ones((8, 8)))
    text = source(K.function([x], [K.exp(K.tanh(K.dot(x, w)))]))
    assert text.count("out=") + text.count("_(t") == 2  # `exp_` writes over its operand
    assert "chain" not in text


def test_one_chain_with_one_block_of_scratch_for_two_values() -> None:
    x = K.placeholder(shape=(1000, 1000))
    y = K.mean(K.square(K.sigmoid(x) * K.tanh(x) + K.relu(x)))
    text = source(K.function([x], [y]))
    assert text.count("def chain") == 1
    assert text.count("= empty(") == 2
    assert "if size(a0)" not in text


def test_an_unknown_batch_decides_when_it_runs() -> None:
    x = K.placeholder(shape=(None, 3))
    f = K.function([x], [K.exp(K.tanh(x))])
    large = kernels.engines_limit(K.backend(), "blocks")
    assert f"if size(a0) < {large:.0f}:" in source(f)
    for n in (2, 200_000):
        a = rng.normal(size=(n, 3)).astype("float32")
        np.testing.assert_allclose(f([a])[0], np.exp(np.tanh(a)), rtol=1e-6)


def test_what_is_computed_from_variables_alone_joins_the_update() -> None:
    f, _ = averaged((800, 800))
    text = source(f)
    assert text.count("def chain") == 1  # with the output, which squares the gradient too
    assert text.count("pool_") == 3


def test_a_matrix_product_between_two_element_wise_nodes_parts_them() -> None:
    x, w = K.placeholder(shape=(800, 800)), K.variable(np.eye(800))
    y = K.relu(x + 1)
    text = source(K.function([x], [K.tanh(K.dot(y, w)) * y + y]))
    assert text.count("def chain") == 2


def test_what_is_multiplied_by_a_part_of_itself_is_not_written_over() -> None:
    x = K.placeholder(shape=(4, 3))
    y = K.exp(x)
    f = K.function([x], [y * y[:1]])
    assert source(f).count("out=") == 0
    a = rng.normal(size=(4, 3)).astype("float32")
    np.testing.assert_allclose(f([a])[0], np.exp(a) * np.exp(a[:1]), rtol=1e-6)


def test_an_error_inside_a_chain_names_the_line_that_built_it(tiny: None) -> None:
    x = K.placeholder(shape=(5, 4))
    f = K.function([x], [K.exp(x) + K.tanh(x)])
    f([np.ones((5, 4), "float32")])
    program = f._function.call.__globals__["run"]
    with pytest.raises((TypeError, RuntimeError)) as caught:  # no kernel writes that to floats
        program(f._function.plan.engine.from_numpy(np.zeros((5, 4), "complex64")))
    from backplane.compile.source_map import built_at

    found = built_at(caught.value)
    assert found is not None
    assert found.op.name == "exp"
    assert "test_tiling.py" in str(found.where)


def test_equal_helpers_are_compiled_once_and_keep_their_lines() -> None:
    """Errors in them still lead to the lines of the user."""
    source = Source("program", bad=lambda x: 1 / x)
    with source.block("def program(k, x):"):
        source.line("return (first, second, third)[k](x)")
    for name, parameter in (("first", "x"), ("second", "x"), ("third", "y")):
        with source.helper(), source.block(f"def {name}({parameter}):"):
            source.line("a = 1")
            source.line(f"return a + bad({parameter})", mark=name)
    program = source.function("program")
    assert [program(k, 0.5) for k in range(3)] == [3, 3, 3]
    names = program.__globals__
    assert names["first"].__code__.co_code == names["second"].__code__.co_code
    for k, name in enumerate(("first", "second", "third")):
        with pytest.raises(ZeroDivisionError) as caught:
            program(k, 0)
        frame = traceback.extract_tb(caught.value.__traceback__)[-2]
        assert frame.name == name
        assert marked(frame.filename, frame.lineno or 0) == name
        assert "return a + bad(" in (frame.line or "")
