"""Gradients: every rule against differences, to second order, and the walk itself."""

import numpy as np
import pytest

from backplane import backend as K
from backplane.core.graph import Placeholder, constant, toposort
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
from backplane.ops import creation, effects, indexing, linear, reduction, shaping
from backplane.ops import elementwise as ew
from backplane.ops.autodiff import gradients
from backplane.ops.creation import scalar
from core.evaluate import leaf, slopes, total, value, values

_rng = np.random.default_rng(3)


def free(*shape):
    """No ties, no zeros, no kinks within reach of a difference."""
    n = int(np.prod(shape))
    return (_rng.permutation(n).reshape(shape) - n // 2 + 0.5) / 8


def positive(*shape):
    return _rng.uniform(0.3, 2, shape)


def squared(t):
    return ew.mul(t, t)


MASK = constant(np.array([[True, False, True]]))
INDICES = constant(np.array([[0, 2], [2, -1]], "int32"))
STARTS = constant(np.array([1, 3], "int32"))
ZEROS = free(3, 4)
ZEROS[0, 1] = ZEROS[1, 1] = ZEROS[1, 2] = 0
ZEROS[2] = 0


def case(function, *arrays, id, order=2):
    return pytest.param(function, arrays, order, id=id)


def unary():
    names = "neg abs exp expm1 sin cos tanh sigmoid softplus relu sign"
    yield from (case(PRIMITIVES[n], free(2, 3), id=n) for n in names.split())
    yield from (case(PRIMITIVES[n], positive(2, 3), id=n) for n in ("log", "log1p", "sqrt"))
    yield case(ew.erfinv, _rng.uniform(-0.8, 0.8, (2, 3)), id="erfinv")
    yield case(lambda x: squared(effects.identity(x)), free(2), id="identity")


def binary():
    for n in ("add", "sub", "mul", "maximum", "minimum", "mul_no_nan"):
        yield case(PRIMITIVES[n], free(2, 3), free(2, 3) + 0.1, id=n)
        yield case(PRIMITIVES[n], free(2, 1), free(4, 1, 3) + 0.01, id=f"{n}-broadcast")
    for n in ("div", "pow", "mod"):
        yield case(PRIMITIVES[n], positive(2, 3), positive(2, 3), id=n)
        yield case(PRIMITIVES[n], positive(2, 1), positive(3), id=f"{n}-broadcast")
    for p in (0.0, 0.5, 1.0, 2.0, 3.0, -1.0):
        yield case(lambda x, p=p: ew.pow(x, constant(p)), positive(2, 3), id=f"pow{p}")
    yield case(lambda x: ew.pow(x, constant(3.0)), free(2, 3), id="pow-of-negative")
    yield case(lambda x: ew.div(x, constant(3.0)), free(2, 3), id="div-by-number")
    for n in ("relu_grad", "sigmoid_grad", "tanh_grad"):
        yield case(PRIMITIVES[n], free(2, 3), free(2, 3), id=n)
    yield case(lambda x, y: squared(ew.where(MASK, x, y)), free(2, 3), free(3), id="where")


def reductions():
    for n in ("sum", "mean", "prod", "max", "min", "logsumexp"):
        for axes in ((0,), (1, 2), (0, 2), (0, 1, 2)):
            for keepdims in (False, True):
                f = PRIMITIVES[n]
                yield case(
                    lambda x, f=f, a=axes, k=keepdims: squared(f(x, axes=a, keepdims=k)),
                    free(2, 3, 2),
                    id=f"{n}{axes}{keepdims}",
                )
    yield case(lambda x: reduction.prod(x, axes=(0, 1), keepdims=False), ZEROS[:2], id="prod-zeros")
    yield case(lambda x: reduction.prod(x, axes=(1,), keepdims=False), ZEROS, id="prod-rows-zeros")
    for reverse in (False, True):
        for axis in (0, 1):
            at = {"axis": axis, "reverse": reverse}
            tag = f"{axis}{reverse}"
            yield case(
                lambda x, a=at: squared(reduction.cumsum(x, **a)), free(3, 4), id=f"cumsum{tag}"
            )
            yield case(lambda x, a=at: reduction.cumprod(x, **a), ZEROS, id=f"cumprod{tag}")
    for axis in (0, 1, 2):
        for n in ("softmax", "log_softmax"):
            f = PRIMITIVES[n]
            yield case(lambda x, f=f, a=axis: f(x, axis=a), free(2, 3, 2), id=f"{n}{axis}")
    yield case(lambda x: squared(reduction.top_k(x, k=2)[0]), free(2, 3, 4), id="top_k")
    yield case(lambda x: squared(reduction.top_k(x, k=2)[0]), free(5), id="top_k-vector")


def products():
    for tx in (False, True):
        for ty in (False, True):
            for batch in ((), (3,)):
                x = free(*batch, *((4, 2) if tx else (2, 4)))
                y = free(*batch, *((5, 4) if ty else (4, 5)))
                yield case(
                    lambda a, b, tx=tx, ty=ty: linear.matmul(a, b, transpose_x=tx, transpose_y=ty),
                    x, y, id=f"matmul{tx}{ty}{len(batch)}",
                )  # fmt: skip


def shapes():
    yield case(lambda x: squared(shaping.reshape(x, shape=(3, -1))), free(2, 3, 2), id="reshape")
    yield case(
        lambda x, y: shaping.reshape_like(x, y) * y, free(6, 2), free(4, 3), id="reshape_like"
    )
    yield case(
        lambda x, y: shaping.broadcast_like(x, y) * y, free(1, 3), free(4, 2, 3), id="broadcast"
    )
    yield case(
        lambda x: squared(shaping.transpose(x, perm=(2, 0, 1))), free(2, 3, 4), id="transpose"
    )
    yield case(lambda x: squared(shaping.expand_dims(x, axes=(0, 2))), free(2, 3), id="expand_dims")
    yield case(lambda x: squared(shaping.squeeze(x, axes=(0, 2))), free(1, 3, 1), id="squeeze")
    for axis in (0, 1):
        yield case(
            lambda x, y, z, a=axis: squared(shaping.concat(x, y, z, axis=a)),
            free(2, 3), free(2, 3), free(2, 3), id=f"concat{axis}",
        )  # fmt: skip
    yield case(lambda x, y: squared(shaping.stack([x, y], 1)), free(2, 3), free(2, 3), id="stack")
    slices = ((None, None, 1), (1, None, 2))
    yield case(lambda x: squared(indexing.slice(x, slices=slices)), free(3, 4), id="slice")
    yield case(lambda x: squared(indexing.flip(x, axes=(1,))), free(2, 3), id="flip")
    padding = ((1, 0), (0, 2))
    yield case(lambda x: squared(indexing.pad(x, padding=padding, value=3)), free(2, 3), id="pad")
    for axis in (0, 1):
        yield case(
            lambda x, a=axis: squared(indexing.gather(x, INDICES, axis=a)),
            free(3, 4),
            id=f"gather{axis}",
        )
    yield case(
        lambda x: squared(indexing.dynamic_slice(x, STARTS, shape=(2, 2))),
        free(3, 4),
        id="dynamic_slice",
    )
    yield case(
        lambda g: squared(indexing.dynamic_slice_grad(g, STARTS, shape=(4, 5))),
        free(2, 2), id="dynamic_slice_grad",
    )  # fmt: skip


CASES = [*unary(), *binary(), *reductions(), *products(), *shapes()]


@pytest.mark.parametrize("unknown", [False, True], ids=["static", "unknown"])
@pytest.mark.parametrize(("function", "arrays", "order"), CASES)
def test_the_rule_is_the_derivative(function, arrays, order, unknown):
    pairs = slopes(function, *arrays, unknown=unknown, order=order)
    assert pairs
    for found, expected in pairs:
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_slice_grad_and_scatter_add_are_differentiated():
    """Their shape is a parameter, so that no size of theirs is unknown."""
    slices = ((None, None, 1), (1, None, 2))
    for f, a in [
        (lambda g: squared(indexing.slice_grad(g, shape=(3, 5), slices=slices)), free(3, 2)),
        (lambda g: squared(indexing.scatter_add(g, INDICES, shape=(3, 2), axis=0)), free(2, 2, 2)),
    ]:
        for found, expected in slopes(f, a):
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("unknown", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_concat_gives_each_operand_its_part(unknown):
    arrays = [free(2, 3), free(1, 3), free(3, 3)]
    xs = [leaf(None if i in unknown else len(a), 3) for i, a in enumerate(arrays)]
    loss = total(squared(shaping.concat(*xs, axis=0)))
    found = values(gradients([loss], xs), dict(zip(xs, arrays, strict=True)))
    for g, a in zip(found, arrays, strict=True):
        np.testing.assert_allclose(g, 2 * a)


# --- kinks ----------------------------------------------------------------------------------------


def grads(function, *points):
    xs = [leaf(*np.shape(p)) for p in points]
    return values(gradients([total(function(*xs))], xs), dict(zip(xs, points, strict=True)))


@pytest.mark.parametrize(
    ("function", "points", "expected"),
    [
        (ew.maximum, (1.0, 1.0), (1, 0)),
        (ew.minimum, (1.0, 1.0), (1, 0)),
        (ew.relu, (0.0,), (0,)),
        (ew.abs, (0.0,), (0,)),
        (ew.sqrt, (0.0,), (np.inf,)),
        (ew.pow, (0.0, 0.0), (0, 0)),
        (ew.pow, (-1.0, 2.0), (-2, 0)),
        (ew.pow, (0.0, 2.0), (0, 0)),
        (ew.sign, (3.0,), (0,)),
    ],
)
def test_at_a_kink(function, points, expected):
    assert [float(g) for g in grads(function, *points)] == list(expected)


def test_ties_of_a_reduction_share_equally():
    for f in (reduction.max, reduction.min):
        (g,) = grads(lambda x, f=f: f(x, axes=(1,), keepdims=False), [[1.0, 1, 1, 1], [2, 2, 0, 0]])
        np.testing.assert_array_equal(g[0], [0.25] * 4)
        assert sorted(g[1]) == [0, 0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("name", "bad"),
    [("log", 0.0), ("sqrt", 0.0), ("log1p", -1.0), ("exp", 1e4), ("expm1", 1e4), ("erfinv", 1.0)],
)
def test_a_masked_branch_contributes_nothing(name, bad):
    def f(x):
        return ew.where(ew.equal(x, constant(bad)), constant(0.0), PRIMITIVES[name](x))

    (g,) = grads(f, [bad, 0.5])
    assert g[0] == 0
    assert g[1] > 0


def test_a_masked_division_and_power_contribute_nothing():
    def f(operation):
        return lambda x, y: ew.where(ew.equal(y, constant(0.0)), constant(0.0), operation(x, y))

    for g in grads(f(ew.div), [1.0, 1.0], [0.0, 2.0]):
        assert g[0] == 0
        assert g[1] != 0
    (g,) = grads(
        lambda x: ew.where(ew.less(constant(0.0), x), ew.pow(x, constant(0.5)), x), [0.0, 4.0]
    )
    np.testing.assert_allclose(g, [1, 0.25])


def test_the_second_derivative_sees_a_zero_factor():
    """∂²/∂x∂w of w · log x is 1/x at w = 0 as well: the guard is no constant 0 there."""
    x, w = leaf(), leaf()
    (slope,) = gradients([ew.mul(w, ew.log(x))], [x])
    (mixed,) = gradients([slope], [w])
    assert value(mixed, {x: 4.0, w: 0.0}) == 0.25


def test_logsumexp_of_minus_infinities():
    x = leaf(2, 3)
    y = reduction.logsumexp(x, axes=(1,), keepdims=False)
    (g,) = gradients([y], [x])
    found, slope = values([y, g], {x: [[-np.inf] * 3, [0, -np.inf, 0]]})
    np.testing.assert_allclose(found, [-np.inf, np.log(2)])
    np.testing.assert_allclose(slope, [[0, 0, 0], [0.5, 0, 0.5]])


# --- the walk -------------------------------------------------------------------------------------


def test_a_loss_that_is_no_scalar_is_summed():
    x = leaf(3)
    (g,) = gradients([squared(x)], [x])
    np.testing.assert_allclose(value(g, {x: [1, 2, 3]}), [2, 4, 6])


def test_several_losses_add_up_and_seeds_weigh_them():
    x = leaf()
    losses = [squared(x), ew.neg(x)]
    assert value(gradients(losses, [x])[0], {x: 3.0}) == 5
    assert value(gradients(losses, [x], [constant(2.0), constant(10.0)])[0], {x: 3.0}) == 2


def test_none_for_what_is_not_connected():
    x, y, n = leaf(2), leaf(2), Placeholder(Spec((2,), "int32"))
    loss = total(x + effects.stop_gradient(y) + ew.cast(n, dtype="float64") + ew.floor(y))
    found = gradients([loss], [x, y, n])
    assert found[0] is not None
    assert found[1:] == [None, None]


def test_with_respect_to_tensors_in_between_and_the_loss_itself():
    x = leaf()
    h = squared(x)
    loss = squared(h)
    found = gradients([loss], [x, h, loss])
    assert [float(v) for v in values(found, {x: 2.0})] == [32, 8, 1]


def test_zero_times_a_rule_is_not_computed():
    """relu's curvature is a zero that is connected: it costs a fill, not a backward pass."""
    x, w = leaf(2, 3), leaf(3, 4)
    h = ew.relu(linear.matmul(x, w, transpose_x=False, transpose_y=False))
    (slope,) = gradients([h], [x])
    (curvature,) = gradients([slope], [x])
    assert [t.op.name for t in toposort([curvature]) if t.op is not None] == ["full"]
    np.testing.assert_array_equal(value(curvature), np.zeros((2, 3)))


def test_nodes_of_a_gradient_belong_to_the_line_of_the_forward_node():
    x = leaf(2)
    y = ew.exp(x)
    (g,) = gradients([y], [x])
    assert g.where == y.where.of_gradient()
    assert g.where.filename == __file__


def names_in(outputs):
    return [t.op.name for t in toposort(outputs) if t.op is not None]


def test_equal_static_shapes_need_no_sum():
    x, y = leaf(2, 3), leaf(2, 3)
    assert "sum" not in names_in(gradients([x * y], [x, y]))


def test_a_known_axis_is_summed_plainly():
    x, b = leaf(None, 3), leaf(3)
    names = names_in(gradients([x + b], [x, b]))
    assert names.count("sum") == 1
    assert "sum_to" not in names


def test_one_batch_size_is_not_summed_over():
    x, w = leaf(None, 3), leaf(3, 3)
    h = ew.tanh(linear.matmul(x, w, transpose_x=False, transpose_y=False))
    gate = ew.sigmoid(reduction.softmax(x + scalar(1, "float64"), axis=1))
    assert "sum_to" not in names_in(gradients([x + h * gate], [x, w]))


def test_two_batch_sizes_may_be_broadcast():
    x, y = leaf(None, 2), leaf(None, 2)
    found = gradients([x * y], [x, y])
    assert names_in(found).count("sum_to") == 2
    gx, gy = values(found, {x: [[1, 2]], y: [[3, 4], [5, 6]]})
    np.testing.assert_array_equal(gx, [[8, 10]])
    np.testing.assert_array_equal(gy, [[1, 2], [1, 2]])


def test_print_passes_the_gradient(capsys):
    x = leaf(2)
    y = effects.print_(x, message="x is", style=())
    np.testing.assert_array_equal(value(gradients([squared(y)], [x])[0], {x: [1.0, 2.0]}), [2, 4])
    assert "x is" in capsys.readouterr().out


def test_top_k_of_rows_whose_number_is_unknown():
    x = leaf(None, None)
    top, _ = reduction.top_k(x, k=1)
    (g,) = gradients([top], [x])
    np.testing.assert_array_equal(value(g, {x: [[1, 3, 2], [5, 4, 4]]}), [[0, 1, 0], [1, 0, 0]])


def test_mean_of_an_unknown_number():
    x = leaf(None, 2)
    (g,) = gradients([reduction.mean(x, axes=(0, 1), keepdims=False)], [x])
    np.testing.assert_array_equal(value(g, {x: np.ones((4, 2))}), np.full((4, 2), 0.125))


def test_a_cast_between_floats_passes_the_gradient_back_in_the_dtype_of_its_operand():
    x = leaf(2, dtype="float32")
    (g,) = gradients([squared(ew.cast(x, dtype="float64"))], [x])
    assert g.dtype == "float32"
    np.testing.assert_array_equal(value(g, {x: [1, 2]}), [2, 4])


def test_full_is_not_connected():
    x = leaf(None)
    y = creation.full(creation.dim(x, axis=0), shape=(None,), value=2.0, dtype="float64")
    assert gradients([y], [x]) == [None]


@pytest.mark.parametrize("unroll", [False, True])
def test_what_does_not_reach_the_loss_through_a_loop_has_no_gradient(unroll):
    x, w, start = K.variable(np.ones((2, 3, 4))), K.variable(np.ones((4, 4))), K.zeros((2, 4))

    def apart(x_t, states):
        return x_t * 1.0, [states[0] + K.dot(x_t, w)]

    last = K.rnn(apart, x, [start], unroll=unroll, input_length=3)[0]
    g_x, g_w, g_start = K.gradients(K.sum(last), [x, w, start])
    assert g_w is None
    assert g_start is None
    np.testing.assert_array_equal(K.eval(g_x)[:, 2], np.ones((2, 4)))

    def replaced(x_t, states):
        return x_t + states[0], [K.dot(x_t, w)]

    last, _, (final,) = K.rnn(replaced, x, [start], unroll=unroll, input_length=3)
    assert K.gradients(K.sum(final), [start]) == [None]
    g_w, g_start = K.gradients(K.sum(last), [w, start])
    np.testing.assert_array_equal(K.eval(g_w), np.full((4, 4), 2.0))


def test_a_gradient_depends_on_the_results_of_a_loop_that_it_reads() -> None:
    x = K.placeholder(shape=(3, 2))
    y = K.map_fn(K.tanh, x)
    slope = K.gradients(K.sum(y), [x])[0]
    curvature = K.gradients(K.sum(slope), [y])[0]
    data = np.linspace(-1, 1, 6, dtype="float32").reshape(3, 2)
    found = K.function([x], [curvature])([data])[0]
    np.testing.assert_allclose(found, -2 * np.tanh(data), rtol=1e-5, atol=1e-6)
