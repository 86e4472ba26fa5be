"""Which unknown sizes are equal: each is followed back to the axis where it first appears.

`x + y` with two unknown batch sizes may broadcast one of them. Its gradient must then be ready to
sum that axis down again, unless both sizes come from the same axis of the same tensor. The trait
`axes` of a primitive tells from which axes of its operands the size of an axis of its result is
taken. If all of them have the same origin, it is the origin of that size too. If the trait lists no
axis, the size is new.
"""

from __future__ import annotations

from backplane.core.graph import Tensor
from backplane.core.traits import Axis


def _origins(x: Tensor) -> dict[int, Axis | None]:
    """The origins found so far, by axis; None stands for the tensor itself.

    The tensor keeps them itself. A table with weak keys would keep its entries for ever: classic
    Keras hangs the layer on a tensor, which leads to users of the tensor, so an entry would hold
    its own key.
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
    """Record that a leaf has the unknown size of another tensor.

    The leaf is an input of a loop's body, and the other tensor is what the loop hands to it.
    """
    _origins(x)[axis] = origin(to, to_axis)


def same_shape(x: Tensor, y: Tensor) -> bool:
    """Whether `x` and `y` are certain to have equal shapes when they are computed."""
    if x is y:
        return True
    shape = x.spec.shape
    if shape != y.spec.shape:
        return False
    if None not in shape:
        return True
    return all(n is not None or origin(x, i) == origin(y, i) for i, n in enumerate(shape))
