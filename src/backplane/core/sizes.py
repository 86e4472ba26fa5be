"""Unknown sizes that are known to be equal: where an unknown size first appears.

`x + y` with two unknown batch sizes may broadcast one of them, so its gradient must be prepared to
sum it down again, unless both sizes come from the same axis of the same tensor. A primitive's trait
`axes` says from which axes of its operands the size of an axis of its result is taken. The size has
one origin if all of them have the same one; no axis listed means that the size is new.
"""

from __future__ import annotations

from backplane.core.graph import Tensor
from backplane.core.traits import Axis


def _origins(x: Tensor) -> dict[int, Axis | None]:
    """The origins found so far, by axis; None stands for the tensor itself.

    They are kept on the tensor: in a table with weak keys an entry would never go, where the user
    of a tensor hangs on the tensor (classic Keras' layers) and is so held by its own entry.
    """
    found: dict[int, Axis | None] = x.__dict__.setdefault("origins", {})
    return found


def origin(x: Tensor, axis: int) -> Axis:
    """The tensor and the axis that the unknown size of `axis` of `x` is taken from."""
    stack = [(x, axis)]
    while stack:
        node, i = stack[-1]
        known = _origins(node)
        if i not in known:
            rule = node.op.axes if node.op is not None else None
            sources = rule(node, i) if rule is not None else ()
            waiting = [s for s in sources if s[1] not in _origins(s[0])]
            if waiting:
                stack.extend(waiting)
                continue
            found = {_origins(t)[j] or (t, j) for t, j in sources}
            known[i] = found.pop() if len(found) == 1 else None
        stack.pop()
    return _origins(x)[axis] or (x, axis)


def tie(x: Tensor, axis: int, to: Tensor, to_axis: int) -> None:
    """State that a leaf has the unknown size of another tensor.

    The leaf is an input of a loop's body, the other tensor the one that is handed to it.
    """
    _origins(x)[axis] = origin(to, to_axis)


def same_shape(x: Tensor, y: Tensor) -> bool:
    """Whether `x` and `y` surely have equal shapes when they are computed."""
    if x is y:
        return True
    shape = x.spec.shape
    if shape != y.spec.shape:
        return False
    if None not in shape:
        return True
    return all(n is not None or origin(x, i) == origin(y, i) for i, n in enumerate(shape))
