"""Meshes of devices: programs over several devices and processes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack

from backplane import engines
from backplane.backend._args import as_int
from backplane.backend._call import api
from backplane.backend.types import MeshAxes, TensorLike
from backplane.core import context
from backplane.core.graph import Placeholder, Tensor
from backplane.core.mesh import Mesh, check_layout, current_mesh, layout_of, set_default_mesh
from backplane.core.tracebacks import boundary
from backplane.core.variable import Variable, lay_out
from backplane.known_engines import ENGINES
from backplane.ops import effects
from backplane.ops.lift import as_tensor

__all__ = ["get_mesh", "set_mesh", "shard"]


class MeshInForce(AbstractContextManager[None]):
    """The result of `K.set_mesh`: in a `with` statement, the mesh is in force inside only."""

    def __init__(self, mesh: Mesh | None, before: Mesh | None) -> None:
        self._mesh = mesh
        self._before = before
        self._stack = ExitStack()

    def __enter__(self) -> None:
        set_default_mesh(self._before)
        self._stack.enter_context(context.changed(mesh=(self._mesh,)))

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def __repr__(self) -> str:
        return f"<mesh {self._mesh}>"


@boundary
def set_mesh(axes: Mapping[str, int] | None) -> MeshInForce:
    """Arrange devices in a mesh: functions that are made from now on run over all of them.

    One program then runs on every device of the mesh, each with its part of the data, and gives the
    result of a single device. Values of placeholders whose first size is unknown are split by the
    axis `"batch"`, if the mesh has one. A batch that cannot be split into equal parts goes to all
    devices as a whole. Variables are on every device as a whole. `K.shard` says otherwise.

    Functions keep the mesh that was in force when they were made. An addition of Backplane.

    Args:
        axes: Dict from names of axes to sizes, such as `{"batch": 4, "model": 2}` for 8 devices.
            None ends the mesh. With several processes the mesh has the devices of all of them, and
            every process makes the same calls with the same values.

    Returns:
        An object for a `with` statement. The mesh is then in force inside of it only, for the
        present thread or task. Without `with` it is in force until the next call, in all threads.

    Raises:
        TypeError: if `axes` is no dict from strings to whole numbers.
        ValueError: if a size is less than 1, if there are too few devices, or if the engine in
            force computes on one device only. The mesh before stays in force.

    Example:
        >>> from backplane import backend as K
        >>> with K.set_mesh({"batch": 1}):
        ...     x = K.placeholder((None, 2))
        ...     f = K.function([x], [K.sum(x, axis=1)])
        >>> f([[[1.0, 2.0], [3.0, 4.0]]])
        [array([3., 7.], dtype=float32)]
    """
    if axes is not None and not isinstance(axes, Mapping):
        raise TypeError(
            'K.set_mesh: axes must be a dict from names to sizes, such as {"batch": 8}, or None; '
            f"got {axes!r}"
        )
    mesh = None
    if axes is not None:
        sizes = {name: as_int(n, f"K.set_mesh: the size of {name!r}") for name, n in axes.items()}
        mesh = Mesh.of(sizes)
        _check(mesh)
    return MeshInForce(mesh, set_default_mesh(mesh))


def _check(mesh: Mesh) -> None:
    """ValueError if the engine in force cannot compute on the mesh, with a hint for launchers."""
    engine = engines.current()
    try:
        engine.on_mesh(mesh)
    except ValueError as error:
        for name, known in ENGINES.items():
            if known.launcher is not None and name != engine.name:
                command, variable = known.launcher
                if variable in os.environ:
                    raise ValueError(
                        f"{error}. {command} has started this process for the engine {name!r}, and "
                        f"the engine in force is {engine.name!r}: set KERAS_BACKEND={name}"
                    ) from None
        raise


def get_mesh() -> dict[str, int] | None:
    """The mesh in force: a dict from the names of its axes to their sizes. None without a mesh.

    An addition of Backplane.

    Example:
        >>> from backplane import backend as K
        >>> with K.set_mesh({"batch": 1, "model": 1}):
        ...     K.get_mesh()
        {'batch': 1, 'model': 1}
    """
    mesh = current_mesh()
    return None if mesh is None else mesh.sizes


@api
def shard(x: TensorLike, layout: Sequence[MeshAxes]) -> Tensor:
    """Say how a tensor lies on the mesh of devices.

    Each device of the mesh then holds its part of the tensor. Results stay the same, to rounding:
    what a device needs of the others' parts is sent to it. Without a mesh nothing happens.

    - A variable: its value is split from now on, and so are its new values.
    - A placeholder: what is fed is split in this way.
    - Any other tensor, and its gradient: it is computed in parts. If the operation before it gives
      other parts, these are exchanged.

    An addition of Backplane.

    Args:
        x: Tensor.
        layout: A tuple with an entry for each axis: the name of the mesh axis that splits it, a
            tuple of several names, or None for an axis that is not split. The tuple
            `("batch", None)` splits the rows of a matrix.

    Returns:
        `x` itself, if it is a variable or a placeholder. Otherwise a tensor equal to `x`.

    Raises:
        TypeError: if an entry of `layout` is no name.
        ValueError: if there is not one entry for each axis, if `layout` names an axis of the mesh
            twice, or one that the mesh lacks, or if an axis of `x` cannot be split into equal
            parts. Sizes that are unknown yet are checked when a function is called.

    Example:
        >>> from backplane import backend as K
        >>> x = K.shard(K.placeholder((None, 4)), ("batch", None))
        >>> w = K.shard(K.ones((4, 6)), (None, "model"))
        >>> K.function([x], [K.shard(K.dot(x, w), ("batch", "model"))])([[[1.0, 2.0, 3.0, 4.0]]])
        [array([[10., 10., 10., 10., 10., 10.]], dtype=float32)]
    """
    tensor = as_tensor(x)
    wanted = layout_of(layout, tensor.ndim, "K.shard")
    mesh = current_mesh()
    if mesh is not None:
        check_layout(wanted, tensor.spec.shape, mesh, "K.shard")
    if isinstance(tensor, Variable):
        lay_out(tensor, wanted)
    elif isinstance(tensor, Placeholder):
        tensor.layout = wanted
    else:
        return effects.shard(tensor, layout=wanted)
    return tensor
