"""Meshes of devices, and how tensors lie on them. No engine's library is needed for this.

A mesh arranges devices in a grid whose axes have names. A layout says for each axis of a tensor by
which axes of the mesh it is split. What is split by no axis of the mesh is there on all of its
devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from backplane.core.context import current

Layout = tuple[tuple[str, ...], ...]
"""For each axis of a tensor the axes of the mesh that split it: `(("batch",), ())` is a matrix
whose rows are split. The first of several axes splits into the largest parts."""

BATCH = "batch"
"""The axis that splits what is fed for placeholders whose first size is unknown."""


class Mesh(NamedTuple):
    """A grid of devices: the names and sizes of its axes, in order. It is a key of programs."""

    axes: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Mesh:
        """The mesh with axes of these names and sizes. TypeError if a name is no string; ValueError
        if there is no axis, or a size is less than 1.
        """
        if not sizes:
            raise ValueError("K.set_mesh: a mesh must have at least one axis, got none")
        for name, size in sizes.items():
            if not isinstance(name, str):
                raise TypeError(f"K.set_mesh: the name of an axis must be a string, got {name!r}")
            if size < 1:
                raise ValueError(
                    f"K.set_mesh: the size of axis {name!r} must be at least 1, got {size}"
                )
        return cls(tuple(sizes.items()))

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes by name."""
        return dict(self.axes)

    @property
    def size(self) -> int:
        """The number of devices."""
        return prod([size for _, size in self.axes])

    def __str__(self) -> str:
        return str(self.sizes)

    def parts(self, names: Sequence[str]) -> int:
        """Into how many parts these axes split."""
        sizes = self.sizes
        return prod([sizes[name] for name in names])


# --- the mesh in force ----------------------------------------------------------------------------

_default: list[Mesh | None] = [None]

MESHES: set[Mesh] = set()
"""The meshes that were ever in force. Who is in a hurry asks only if there are any."""


def current_mesh() -> Mesh | None:
    """The mesh in force: that of the innermost block, or else that of the process."""
    chosen = current().mesh
    return _default[0] if chosen is None else chosen[0]


def set_default_mesh(mesh: Mesh | None) -> Mesh | None:
    """Make `mesh` the one outside of any block, in all threads. Returns the one before."""
    if mesh is not None:
        MESHES.add(mesh)
    before, _default[0] = _default[0], mesh
    return before


# --- layouts --------------------------------------------------------------------------------------


def whole(rank: int) -> Layout:
    """The layout of a tensor that every device has as a whole."""
    return ((),) * rank


def layout_of(given: object, rank: int, what: str) -> Layout:
    """The layout that a user describes: for each axis a name, a tuple of names, or None. TypeError
    for other entries. ValueError if there is not one entry for each axis, or if an axis of the mesh
    is named twice.
    """
    if not isinstance(given, list | tuple):
        raise TypeError(f"{what}: layout must be a tuple with an entry per axis, got {given!r}")
    if len(given) != rank:
        raise ValueError(f"{what}: layout {given!r} has {len(given)} entries for {rank} axes")
    layout = tuple([_names(entry, given, what) for entry in given])
    names = [name for entry in layout for name in entry]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"{what}: layout {given!r} names the mesh axis {name!r} twice; an axis of the mesh "
                "can split one axis of a tensor"
            )
    return layout


def _names(entry: object, given: object, what: str) -> tuple[str, ...]:
    names = () if entry is None else (entry,) if isinstance(entry, str) else entry
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"{what}: an entry of layout is the name of a mesh axis, a tuple of names or None; got "
            f"{entry!r} in {given!r}"
        )
    return tuple(names)


def check_layout(layout: Layout, shape: Sequence[int | None], mesh: Mesh, what: str) -> None:
    """ValueError, which begins with `what`, if a tensor of this shape cannot lie on the mesh so:
    the mesh lacks an axis, or an axis of the tensor cannot be split into equal parts.
    """
    for axis, (names, n) in enumerate(zip(layout, shape, strict=True)):
        for name in names:
            if name not in mesh.sizes:
                raise ValueError(f"{what}: no axis of the mesh {mesh} is called {name!r}")
        parts = mesh.parts(names)
        if n is not None and n % parts:
            raise ValueError(
                f"{what}: axis {axis} has {n} elements, and cannot be split into {parts} equal "
                f"parts by {', '.join(map(repr, names))} of the mesh {mesh}"
            )


def feed_layout(
    given: Layout | None, shape: Sequence[int], first: int | None, mesh: Mesh, what: str
) -> Layout:
    """The layout in which a value of this shape is fed: the one that the user has `given`
    (ValueError if it does not fit), or else split by the axis `batch` if the `first` size of the
    placeholder is unknown. A batch that this does not divide, such as the last one of an epoch, is
    given to all devices as a whole.
    """
    if given is not None:
        check_layout(given, shape, mesh, what)
        return given
    parts = mesh.sizes.get(BATCH)
    if len(shape) and first is None and parts is not None and shape[0] % parts == 0:
        return ((BATCH,), *whole(len(shape) - 1))
    return whole(len(shape))
