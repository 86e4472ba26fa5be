"""Idioms of public code that calls K, on every engine: steps that keep tensors, ends of slices that
are tensors."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K


class Kept:
    """A step function like those of classic Keras' recurrent cells: the masks are built in the
    first call and kept for the later ones."""

    def __init__(self) -> None:
        self.masks: tuple | None = None

    def add_masks(self, x, state):
        if self.masks is None:
            ones = K.ones_like(x), K.ones_like(state)
            self.masks = tuple(K.dropout(one, 0.5) for one in ones)
        return x * self.masks[0] + state * self.masks[1]

    def step(self, x, states):
        new = self.add_masks(x, states[0])
        return new, [new]


def sums_of_kept(x, mask_x, mask_state, state):
    """What `Kept.step` makes of each row of `x` (time first)."""
    rows = []
    for row in x:
        state = row * mask_x + state * mask_state
        rows.append(state)
    return np.stack(rows)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(2, 5, 3), (None, None, 3)])
def test_one_dropout_mask_for_all_steps(engine, shape, masked):
    x = K.placeholder(shape=shape)
    mask = K.placeholder(shape=(None, None))
    cell = Kept()
    _, outputs, _ = K.rnn(cell.step, x, [K.zeros_like(x[:, 0])], mask=mask if masked else None)
    gradient = K.gradients(K.sum(outputs[:, 1]), x)[0]
    f = K.function([x, mask] if masked else [x], [outputs, gradient, *cell.masks])
    value = np.random.default_rng(0).uniform(1, 2, (2, 5, 3))
    for _ in range(2):
        found, slope, *masks = f([value, np.ones((2, 5))] if masked else [value])
        wanted = sums_of_kept(value.swapaxes(0, 1), *masks, 0.0)
        np.testing.assert_allclose(found.swapaxes(0, 1), wanted, rtol=1e-5)
        np.testing.assert_allclose(slope[:, 0], masks[0] * masks[1], rtol=1e-5)
        np.testing.assert_allclose(slope[:, 1], masks[0], rtol=1e-5)


def test_steps_that_widen_a_state_keep_tensors(engine):
    """A step that is traced again, because it leaves a state with an unknown size."""
    x = K.placeholder(shape=(None, 4, 3))
    cell = Kept()
    last, _, _ = K.rnn(cell.step, x, [K.zeros((2, 3))])
    value = np.ones((2, 4, 3))
    found, *masks = K.function([x], [last, *cell.masks])([value])
    wanted = sums_of_kept(value.swapaxes(0, 1), *masks, 0.0)[-1]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_no_steps(engine):
    x = K.placeholder(shape=(2, 0, 3))
    _, outputs, states = K.rnn(Kept().step, x, [K.ones((2, 3))])
    found = K.function([x], [outputs, *states])([np.zeros((2, 0, 3))])
    assert found[0].shape == (2, 0, 3)
    np.testing.assert_array_equal(found[1], np.ones((2, 3)))


def test_functions_of_elements_keep_tensors(engine):
    x = K.placeholder(shape=(None, 3))
    value = np.random.default_rng(0).uniform(1, 2, (4, 3))

    mapper = Kept()
    mapped = K.map_fn(lambda row: mapper.add_masks(row, K.zeros((3,))), x)
    found, mask, _ = K.function([x], [mapped, *mapper.masks])([value])
    np.testing.assert_allclose(found, value * mask, rtol=1e-5)

    for fold, rows in ((K.foldl, value), (K.foldr, value[::-1])):
        folder = Kept()
        folded = fold(lambda total, row: folder.add_masks(row, total), x)  # noqa: B023
        found, *masks = K.function([x], [folded, *folder.masks])([value])
        np.testing.assert_allclose(found, sums_of_kept(rows[1:], *masks, rows[0])[-1], rtol=1e-5)
        single = fold(lambda total, row: total + row, K.constant([[1.0, 2.0]]))
        assert K.eval(single).tolist() == [1, 2]


VALUE = np.random.default_rng(1).normal(size=(4, 5, 3)).astype("float32")

SLICES = {
    "x[:, :n]": (lambda x, n: x[:, :n], range(-6, 7)),
    "x[n:, -2:]": (lambda x, n: x[n:, -2:], range(-6, 7)),
    "x[..., n - 1 : n + 1]": (lambda x, n: x[..., n - 1 : n + 1], (1, 2, 3)),
    "x[n::2, 1]": (lambda x, n: x[n::2, 1], (-1, 0, 1)),
    "x[:n:-1]": (lambda x, n: x[:n:-1], range(-6, 7)),
    "x[n]": (lambda x, n: x[n], (-1, 0, 3)),
    "x[n, :, n]": (lambda x, n: x[n, :, n], (-1, 0, 2)),
    "x[:, None, n:][..., n]": (lambda x, n: x[:, None, n:][..., n], (-3, 0, 2)),
    "x[::n, None, 3:-9:n]": (lambda x, n: x[::n, None, 3:-9:n], (-9, -2, -1, 1, 2, 9)),
    "x[1::n, -n, n::n]": (lambda x, n: x[1::n, -n, n::n], (-2, -1, 1, 2)),
}
"""Each with the numbers that are fed for `n`."""


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("unknown", [False, True])
def test_slices_with_tensors(engine, name, unknown):
    part, numbers = SLICES[name]
    x = K.placeholder(shape=(None, None, None) if unknown else VALUE.shape)
    n = K.placeholder(shape=(), dtype="int32")
    y = part(x, n)
    f = K.function([x, n], [y, K.gradients(K.sum(K.square(y)), x)[0]])
    for number in numbers:
        found, slope = f([VALUE, np.int32(number)])
        np.testing.assert_array_equal(found, part(VALUE, number))
        wanted = np.zeros_like(VALUE)
        part(wanted, number)[...] = 2 * part(VALUE, number)
        np.testing.assert_allclose(slope, wanted, rtol=1e-6)


def test_lists_of_slices(engine):
    """A list that is built axis by axis, as code that aligns axes writes it."""
    x = K.placeholder(shape=(None, 5, 3))
    lists = [[slice(None), None, slice(1, None), 0], [None, ...], [..., slice(0, 2)], [2, ...]]
    found = K.function([x], [x[key] for key in lists])([VALUE])
    for value, key in zip(found, lists, strict=True):
        np.testing.assert_array_equal(value, VALUE[tuple(key)])
    picked = K.function([x], [x[[0, 2]]])([VALUE])[0]
    np.testing.assert_array_equal(picked, VALUE[[0, 2]])


def test_slices_with_sizes(engine):
    """Ends that are sizes are no values: also programs for given shapes can be compiled."""
    x, y = K.placeholder(shape=(None, None, 3)), K.placeholder(shape=(None, None))
    size = K.shape(y)[1]
    outputs = [x[:, :size], x[:, -size:], x[:, size // 2 : size : 2], x[:, size - 1]]
    f = K.function([x, y], [*outputs, *K.gradients(K.sum(outputs[2]), [x])])
    for n in (1, 4, 5):
        *found, slope = f([VALUE, np.zeros((2, n))])
        wanted = [VALUE[:, :n], VALUE[:, -n:], VALUE[:, n // 2 : n : 2], VALUE[:, n - 1]]
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        ones = np.zeros_like(VALUE)
        ones[:, n // 2 : n : 2] = 1
        np.testing.assert_array_equal(slope, ones)
    known = x[:, : K.shape(K.zeros((2, 4)))[1]]
    assert K.int_shape(known) == (None, None, 3)


def test_elements_at_a_counter(engine):
    """A loop that looks up the rows of another tensor."""
    table, x = K.placeholder(shape=(4, 3)), K.placeholder(shape=(None, 5, 3))

    def step(x_t, states):
        i = K.cast(states[1][0, 0], "int32")
        new = states[0] + x_t * table[i]
        return new, [new, states[1] - 1]

    zeros = K.zeros_like(x[:, 0])
    last, _, _ = K.rnn(step, x, [zeros, K.zeros_like(zeros[:, :1]) + 1])
    f = K.function([table, x], [last, K.gradients(K.sum(last), table)[0]])
    rows = VALUE[:, 0]
    found, slope = f([rows, VALUE])
    places = [1, 0, -1, -2, -3]
    np.testing.assert_allclose(found, (VALUE * rows[places]).sum(axis=1), rtol=1e-5)
    wanted = np.zeros_like(rows)
    np.add.at(wanted, places, VALUE.sum(axis=0))
    np.testing.assert_allclose(slope, wanted, rtol=1e-5)
