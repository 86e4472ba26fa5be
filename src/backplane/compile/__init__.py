"""From graphs to programs: passes, code generation, `K.function`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backplane.core.graph import Tensor
from backplane.core.hooks import HOOKS
from backplane.ops.autodiff import Group


def _recognized(order: Sequence[Tensor]) -> Iterable[Group]:
    """The groups in a graph. What finds them is imported with the first gradient, because the
    compiler is a fourth of what K is. The first function would be too late: the gradients of the
    first program are taken before it is made.
    """
    from backplane.compile.passes import recognized

    return recognized(order)


HOOKS["groups"] = _recognized
