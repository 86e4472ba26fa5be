"""What primitives say of themselves: each states its traits, and they are true of every engine."""

import numpy as np
import pytest

from backplane import backend as K
from backplane.core.graph import Placeholder
from backplane.core.primitive import primitive
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
from backplane.core.traits import Memory, Stacked
from cases import CASES

ALL = dict(PRIMITIVES)


def test_memory_must_be_stated():
    with pytest.raises(TypeError, match="memory"):
        primitive()
    assert all(isinstance(op.memory, Memory) for op in ALL.values())


def test_elementwise_primitives_have_the_traits_of_their_family():
    found = [op for op in ALL.values() if op.elementwise]
    assert len(found) > 40
    for op in found:
        assert op.axes is not None, op
        assert op.stacks is not None, op


def _memory_of(value: object) -> np.ndarray | None:
    """An array over the memory of a value, where that can be had."""
    try:
        return np.asarray(value)
    except (TypeError, RuntimeError):
        return None


PRIMITIVE_CASES = [case for case in CASES if case.name.startswith("ops.") and case.eager]


@pytest.mark.parametrize("case", PRIMITIVE_CASES, ids=lambda case: f"{case.name}-{case.id}")
def test_results_share_memory_with_the_stated_operands_only(engine, case):
    op = PRIMITIVES[case.name.removeprefix("ops.")]
    operands = [engine.from_numpy(a.copy()) for a in case.arrays("float32")]
    with K.engine(engine.name):
        results = case.call(K, *operands)
    for result in results if isinstance(results, list | tuple) else [results]:
        for i, operand in enumerate(operands):
            arrays = _memory_of(result), _memory_of(operand)
            if None in [None if a is None else 0 for a in arrays] or 0 in [a.ndim for a in arrays]:
                continue
            if np.shares_memory(*arrays):
                assert op.memory is Memory.ANY or (op.memory is Memory.VIEW and i == 0), op


STACKABLE = [c for c in PRIMITIVE_CASES if ALL[c.name.removeprefix("ops.")].stacks is not None]


@pytest.mark.parametrize("case", STACKABLE, ids=lambda case: f"{case.name}-{case.id}")
@pytest.mark.parametrize("first_only", [True, False])
def test_stacks_give_the_results_of_all_steps(case, first_only):
    op = PRIMITIVES[case.name.removeprefix("ops.")]
    steps = [
        case.arrays("float32"),
        [a[::-1].copy() if a.ndim else a for a in case.arrays("float32")],
    ]
    varies = [not first_only or i == 0 for i in range(len(steps[0]))]
    leaves = [Placeholder(Spec(a.shape, a.dtype.name)) for a in steps[0]]
    node = case.call(K, *leaves)
    if isinstance(node, list) or node.op is not op or any(t.op for t in node.inputs):
        return  # the case computes more than one primitive
    arrays = [np.stack(pair) if v else pair[0] for *pair, v in zip(*steps, varies, strict=True)]
    whole = {
        t: Placeholder(Spec(a.shape, a.dtype.name)) for t, a in zip(leaves, arrays, strict=True)
    }
    stacked = dict(zip(leaves, varies, strict=True))
    outside = [(whole.get(t, t), stacked.get(t, False)) for t in node.inputs]
    found = [op.stacks(node, [Stacked(*v, rows) for v in outside]) for rows in (False, True)]
    if None in found:
        assert found == [None, None]
        return
    once = K.function(leaves, [node])
    each = [
        once([b if v else a for a, b, v in zip(steps[0], step, varies, strict=True)])[0]
        for step in steps
    ]
    for y in K.function(list(whole.values()), found)(arrays):
        np.testing.assert_allclose(y, each, rtol=1e-5)


@pytest.mark.parametrize(
    "join", [lambda v: K.concatenate([v]), lambda v: K.stack([v])[0], lambda v: K.stack([v])]
)
def test_a_single_part_is_joined_without_lending_the_variables_memory(engine, join):
    with K.engine(engine.name):
        v = K.variable(np.arange(3.0))
        result = K.function([], [join(v)])([])[0]
        try:
            result[...] = 77
        except ValueError:  # an engine may give arrays that cannot be written to
            assert not result.flags.writeable
        np.testing.assert_array_equal(K.get_value(v), [0, 1, 2])
