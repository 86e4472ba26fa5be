"""Gradients of every case beside numeric differences and beside JAX's own, and those at kinks."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from cases.record import Case
from conformance.compare import assert_close, directional
from conformance.test_cases import (
    differentiated,
    each,
    factors_of,
    flat,
    loss_of,
    placeholders,
    reference_gradients,
    scale_of,
    together,
)


def test_gradient_is_the_derivative(cases: list[Case]) -> None:
    """The NumPy engine's gradients against numeric differences along a random direction, first
    order, and second order where the case is smooth."""
    each(cases, check_derivative)


def check_derivative(case: Case) -> None:
    """One program computes the loss and its slopes."""
    K.set_floatx("float64")
    arrays = case.arrays("float64")
    where = differentiated(case)
    rng = np.random.default_rng(zlib.crc32(case.id.encode()))
    directions = [
        rng.uniform(-1, 1, a.shape) if i in where else np.zeros(a.shape)
        for i, a in enumerate(arrays)
    ]
    inputs = placeholders(case, arrays)
    outputs = flat(case.call(K, *inputs))
    loss = loss_of(outputs, factors_of(case))
    wanted = [inputs[i] for i in where]
    slope, terms = None, []
    for g, i in zip(K.gradients(loss, wanted), where, strict=True):
        if g is not None:
            terms.append(K.sum(g * K.constant(directions[i], dtype="float64")))
            slope = terms[-1] if slope is None else slope + terms[-1]
    assert slope is not None, "nothing is connected"
    chain = [loss, slope]
    if case.smooth:
        curvature = None
        for g, i in zip(K.gradients(slope, wanted), where, strict=True):
            if g is not None:
                term = K.sum(g * K.constant(directions[i], dtype="float64"))
                curvature = term if curvature is None else curvature + term
        chain.append(K.constant(0.0, dtype="float64") if curvature is None else curvature)
    check_slopes(inputs, arrays, directions, where, chain)


def check_slopes(inputs, arrays, directions, where, chain) -> None:
    """Each tensor of the chain is the derivative of the one before it along the directions. One
    program computes them all."""
    f = K.function(inputs, chain)

    def at(points: list[np.ndarray]) -> np.ndarray:
        given = [
            p if i in where else a for i, (p, a) in enumerate(zip(points, arrays, strict=True))
        ]
        return np.array([float(y) for y in f(given)])

    numeric = directional(at, [a.astype("float64") for a in arrays], directions)
    found = at(arrays)
    assert found[1:] == pytest.approx(numeric[:-1], rel=1e-5, abs=1e-6)


test_gradient_is_the_derivative.wanted = lambda case: bool(differentiated(case))


def test_gradient_equals_jax(cases: list[Case]) -> None:
    """Our gradient against `jax.grad` of the same function, called on JAX's own values."""
    pytest.importorskip("jax")
    together(cases, check_jax_grad)


def check_jax_grad(cases: list[Case]) -> None:
    """One function of JAX computes the gradients of the cases: those of the sum of their losses."""
    import jax

    engine = engines.get("jax")
    K.set_floatx("float32")
    fixed = [[engine.from_numpy(a) for a in case.arrays("float32")] for case in cases]

    def loss(free: list[list[Any]]) -> Any:
        return sum(map(native_loss, cases, fixed, free))

    # Where a case casts to float64, the way back needs it outside of our functions too.
    with engines.use("jax"), jax.enable_x64(True):
        points = [
            [given[i] for i in differentiated(case)]
            for case, given in zip(cases, fixed, strict=True)
        ]
        try:
            # Compiled as a whole: op by op JAX would compile each op.
            found = jax.jit(jax.grad(loss))(points)
        except jax.errors.ConcretizationTypeError:
            if len(cases) > 1:
                each(cases, lambda case: check_jax_grad([case]))
                return
            found = jax.grad(loss)(points)  # the case takes sizes from values
    for case, slopes in zip(cases, found, strict=True):
        for g, want in zip(slopes, reference_gradients(case), strict=True):
            scale = scale_of(case, "float32") * 10
            assert_close(engine.to_numpy(g), want, "float32", scale, "jax.grad")


def native_loss(case: Case, fixed: list[Any], free: list[Any]) -> Any:
    """The weighted sum of the outputs for native values, some of which are given anew."""
    natives = list(fixed)
    for i, x in zip(differentiated(case), free, strict=True):
        natives[i] = x
    total = 0.0
    for out, w in zip(flat(case.call(K, *natives)), factors_of(case), strict=True):
        if w is not None:
            total = total + (out * w.astype("float32")).sum()
    return total


test_gradient_equals_jax.wanted = lambda case: (
    bool(differentiated(case)) and case.eager and "float32" in case.dtypes
)


def test_kinks(case: Case, engine: Any) -> None:
    """Stated gradients where the function is not differentiable."""
    for point, expected in case.kinks:
        inputs = [K.placeholder(shape=np.shape(p)) for p in point]
        loss = K.sum(case.call(K, *inputs))
        grads = K.gradients(loss, inputs)
        found = K.function(inputs, grads)([np.asarray(p, "float32") for p in point])
        for g, want in zip(found, expected, strict=True):
            np.testing.assert_array_equal(g, np.asarray(want, "float32"))


test_kinks.wanted = lambda case: bool(case.kinks)
