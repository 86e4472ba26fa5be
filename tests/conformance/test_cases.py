"""Every case on every engine: value, inferred spec, gradients, eager and symbolic, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 by it.
import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from cases import CASES
from cases.record import FLOATS, Arg, Case, _placed
from conformance.compare import assert_close


def flat(result: Any) -> list[Any]:
    """The tensors of a result: of a tensor, a list, a tuple."""
    if isinstance(result, list | tuple):
        return [t for r in result for t in flat(r)]
    return [result]


def placeholders(case: Case, arrays: list[np.ndarray], batch: bool = False) -> list[Tensor]:
    """One placeholder per tensor argument, with unknown batch sizes if `batch`."""
    made = []
    for i, a in enumerate(arrays):
        shape = (None, *a.shape[1:]) if batch and a.ndim and case.batched(i, arrays) else a.shape
        made.append(K.placeholder(shape=shape, dtype=a.dtype.name))
    return made


def differentiated(case: Case) -> list[int]:
    """Positions of the tensor arguments whose gradients are checked."""
    if case.grad is False:
        return []
    free = [i for i, leaf in enumerate(case.leaves()) if leaf.dtype is None]
    return free if case.grad is True else [i for i in case.grad if i in free]


def weights(outputs: list[Any], seed: int) -> list[np.ndarray | None]:
    """Fixed cotangents for the float outputs, so that a gradient check sees every element."""
    rng = np.random.default_rng(seed)
    return [
        rng.uniform(0.5, 1.5, o.shape) if np.asarray(o).dtype.kind == "f" else None for o in outputs
    ]


def loss_of(outputs: list[Tensor], factors: list[np.ndarray | None]) -> Tensor | None:
    """Sum of the float outputs times their weights."""
    total = None
    for t, w in zip(outputs, factors, strict=True):
        if w is not None and is_float(t.spec.dtype):
            term = K.sum(t * K.constant(w, dtype=t.spec.dtype))
            total = term if total is None else total + K.cast(term, total.dtype)
    return total


@cache
def reference(case: Case) -> list[np.ndarray]:
    """The expected value: the oracle's on float64 arrays, else the NumPy engine's. Found once for
    all engines."""
    arrays = case.arrays("float64")
    if case.oracle is None:
        with settings("float32"):
            return run_symbolic(case, arrays, engines.get("numpy"))
    if not callable(case.oracle):
        return [np.asarray(case.oracle)]
    given = iter(arrays)

    return [
        np.asarray(r)
        for r in flat(case.oracle(*[_placed(a, given) for a in case.args], **case.kwargs))
    ]


@cache
def reference_gradients(case: Case) -> list[np.ndarray]:
    """The NumPy engine's gradients in float64. Found once for all engines; `test_gradients.py`
    checks them."""
    with settings("float64"), engines.use("numpy"):
        arrays = case.arrays("float64")
        inputs = placeholders(case, arrays)
        outputs = flat(case.call(K, *inputs))
        return K.function(inputs, gradients_of(case, inputs, outputs))(arrays)


@contextmanager
def settings(floatx: str) -> Iterator[None]:
    """Under this `floatx`."""
    before = K.floatx()
    K.set_floatx(floatx)
    try:
        yield
    finally:
        K.set_floatx(before)


@cache
def factors_of(case: Case) -> list[np.ndarray | None]:
    """The weights of the outputs in the sum that is differentiated, alike in every dtype."""
    with settings("float64"):
        return weights(run_symbolic(case, case.arrays("float64"), engines.get("numpy")), 7)


def gradients_of(case: Case, inputs: list[Tensor], outputs: list[Tensor]) -> list[Tensor]:
    """The gradients of the weighted sum of the outputs; zeros where nothing flows."""
    wanted = [inputs[i] for i in differentiated(case)]
    if not wanted:
        return []
    found = K.gradients(loss_of(outputs, factors_of(case)), wanted)
    return [K.zeros_like(x) if g is None else g for g, x in zip(found, wanted, strict=True)]


def run_symbolic(case: Case, arrays: list[np.ndarray], engine: Any) -> list[np.ndarray]:
    """The outputs through placeholders and `K.function`."""
    with engines.use(engine.name):
        inputs = placeholders(case, arrays)
        return K.function(inputs, flat(case.call(K, *inputs)))(arrays)


def scale_of(case: Case, dtype: str) -> float:
    from conformance.compare import RTOL

    return case.tolerance.get(dtype, RTOL[dtype]) / RTOL[dtype]


def mark(request: pytest.FixtureRequest, case: Case, engine: Any, *aspects: str) -> None:
    for aspect in aspects:
        request.node.user_properties.append(("conformance", (case.name, engine.name, aspect)))


def skip_dtype(engine: Any, dtype: str) -> bool:
    return dtype in engine.missing_dtypes


def lacks(case: Case, engine: Any) -> frozenset[str]:
    return case.needs - engine.capabilities


HALVES = {"float16": 2e-2, "bfloat16": 1e-1}
"""How far a value of a function in half precision may be from the reference, beside the largest
element of a result: a sum of rounded terms is only as good as their number allows."""


@cache
def halved() -> set[str]:
    """One case of each function: half precision asks of an engine what it does with the dtype."""
    fit = [
        c for c in CASES
        if c.dtypes == FLOATS and not c.needs and any(leaf.dtype is None for leaf in c.leaves())
    ]  # fmt: skip
    return {c.id for c in {c.name: c for c in reversed(fit)}.values()}


def variants(case: Case) -> list[tuple[str, bool]]:
    """(dtype, whether the batch size is unknown) of the graphs in the compiled program: each dtype
    once, the first with an unknown batch. `test_eager` runs that dtype alone, with known sizes."""
    first, *others = (*case.dtypes, *(HALVES if case.id in halved() else ()))
    return [(first, bool(case.batch)), *[(dtype, False) for dtype in others]]


class Variant(NamedTuple):
    """A case in one dtype, as a graph."""

    dtype: str
    arrays: list[np.ndarray]
    inputs: list[Tensor]
    outputs: list[Tensor]
    gradients: list[Tensor]


def variant_of(case: Case, dtype: str, batch: bool) -> Variant:
    """Gradients in half precision say nothing. Keras has no `floatx` bfloat16: it is the dtype of
    tensors only."""
    K.set_floatx(dtype if dtype != "bfloat16" else "float32")
    arrays = case.arrays(dtype)
    inputs = placeholders(case, arrays, batch)
    outputs = flat(case.call(K, *inputs))
    gradients = gradients_of(case, inputs, outputs) if dtype not in HALVES else []
    return Variant(dtype, arrays, inputs, outputs, gradients)


def each(cases: list[Case], check: Callable[[Case], None]) -> None:
    """Check one case after the other. The failures of all of them are told, with their names."""
    failures = []
    for case in cases:
        try:
            check(case)
        except Exception as failure:  # noqa: BLE001 - raised below
            failure.add_note(f"The case is {case.id!r}.")
            failures.append(failure)
        K.clear_session()
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases fail", failures)


def together(cases: list[Case], check: Callable[[list[Case]], None]) -> None:
    """Check cases in one program. If that fails, check each alone, to tell which one it is."""
    try:
        check(cases)
    except Exception:
        if len(cases) > 1:
            each(cases, lambda case: check([case]))
        raise


def test_value_and_gradient(cases: list[Case], engine: Any, request: pytest.FixtureRequest) -> None:
    """Values, dtypes and gradients against the references, the inferred spec against the real one.
    One program computes all of them in all dtypes, for some cases of a function: to compile it is
    what takes time on most engines."""
    for case in cases:
        slopes = ("gradient",) if differentiated(case) else ()
        mark(request, case, engine, "value", "spec", *slopes)
    if lacks(cases[0], engine):
        each(cases, lambda case: check_refused(case, engine))
    else:
        together(cases, lambda chosen: check_program(chosen, engine))


def check_refused(case: Case, engine: Any) -> None:
    """An engine refuses what it cannot do."""
    with pytest.raises((NotImplementedError, ValueError, TypeError)):
        run_symbolic(case, case.arrays("float32"), engine)


def check_program(cases: list[Case], engine: Any) -> None:
    """One program computes the cases."""
    found = [
        (case, variant_of(case, dtype, batch))
        for case in cases
        for dtype, batch in variants(case)
        if not skip_dtype(engine, dtype)
    ]
    program = K.function(
        [x for _, v in found for x in v.inputs],
        [y for _, v in found for y in (*v.outputs, *v.gradients)],
    )
    results = iter(program([a for _, v in found for a in v.arrays]))
    for case, v in found:
        check_values(case, v, list(islice(results, len(v.outputs))))
        check_gradients(case, v, list(islice(results, len(v.gradients))))


def check_values(case: Case, v: Variant, results: list[np.ndarray]) -> None:
    """Values, dtypes and shapes of the outputs."""
    in_half = v.dtype not in case.dtypes
    for out, result, want in zip(v.outputs, results, reference(case), strict=True):
        assert result.dtype.name == out.spec.dtype
        assert len(result.shape) == len(out.spec.shape)
        for n, m in zip(result.shape, out.spec.shape, strict=True):
            assert m is None or n == m, f"inferred {out.spec.shape}, real {result.shape}"
        if in_half:
            check_half(result, want, HALVES[v.dtype])
        else:
            assert_close(result, want, v.dtype, scale_of(case, v.dtype))


def check_half(result: np.ndarray, want: np.ndarray, near: float) -> None:
    """What float16 cannot hold is left out."""
    assert result.shape == want.shape
    if want.dtype.kind == "f":
        inside = np.isfinite(want) & (np.abs(want) < 6e4)
        size = max(float(np.abs(want[inside]).max(initial=0)), 1e-2)
        found = result[inside].astype("float64")
        np.testing.assert_allclose(found, want[inside], rtol=near, atol=near * size)


def check_gradients(case: Case, v: Variant, results: list[np.ndarray]) -> None:
    """Beside those of the NumPy engine in float64."""
    if results:
        scale = scale_of(case, v.dtype) * 10
        for found, want in zip(results, reference_gradients(case), strict=True):
            assert_close(found, want, v.dtype, scale, "gradient")


def test_eager(cases: list[Case], engine: Any, request: pytest.FixtureRequest) -> None:
    """Native values in, native values out, with the values and dtypes of the symbolic way."""
    each(cases, lambda case: check_eager(case, engine))
    for case in cases:
        if runs_eagerly(case, engine):
            mark(request, case, engine, "eager")


def runs_eagerly(case: Case, engine: Any) -> bool:
    """Whether the engine has what a case needs."""
    return not lacks(case, engine) and not skip_dtype(engine, case.dtypes[0])


def check_eager(case: Case, engine: Any) -> None:
    """A call with native values."""
    if not runs_eagerly(case, engine):
        return
    dtype = case.dtypes[0]
    K.set_floatx(dtype)
    arrays = case.arrays(dtype)
    natives = [engine.from_numpy(a) for a in arrays]
    specs = [t.spec for t in flat(case.call(K, *placeholders(case, arrays)))]
    results = flat(case.call(K, *natives))
    for result, spec, want in zip(results, specs, reference(case), strict=True):
        found = engine.to_numpy(result) if engine.owns(result) else np.asarray(result)
        assert found.dtype.name == spec.dtype
        assert_close(found, want, dtype, scale_of(case, dtype))


test_eager.wanted = lambda case: case.eager


def symbolic(value: Any) -> Any:
    """Arguments with a placeholder in the place of each `Arg`, those in lists included."""
    if isinstance(value, Arg):
        return K.placeholder(shape=value.shape, dtype=value.dtype or "float32")
    return type(value)(map(symbolic, value)) if isinstance(value, list | tuple) else value


def test_errors(case: Case, engine: Any) -> None:
    """Bad arguments fail with the stated exception and message, on every engine."""
    function = case.fn or getattr(K, case.name)
    for args, kwargs, exception, pattern in case.errors:
        made = symbolic(args)
        with pytest.raises(exception, match=pattern):
            function(*((K, *made) if case.fn else made), **kwargs)


test_errors.wanted = lambda case: bool(case.errors)
