"""The interface of an engine, in roles (`engines.roles`).

An engine module defines one subclass of `Engine` and exports an instance as `ENGINE`. The names of
the primitives, their operands and parameters are listed in `docs/primitives.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from backplane.core.graph import Graph, Tensor, toposort
from backplane.core.mesh import Mesh
from backplane.core.native import Native
from backplane.core.spec import Spec
from backplane.engines.roles.calls import Called
from backplane.engines.roles.memory import Memory
from backplane.engines.roles.natives import Natives
from backplane.engines.roles.processes import Processes
from backplane.engines.roles.programs import Limited
from backplane.engines.roles.values import Traced
from backplane.engines.table import Lowering, Table


class Engine(Traced, Called, Memory, Natives, Limited, Processes):
    """The base of all engines. Only importing an engine's module may import its library."""

    device: str | None = None
    """The device that programs run on; None for the engine itself (`on_device`)."""

    def devices(self) -> list[str]:
        """The library's devices, such as `cpu:0` or `gpu:1`; accelerators come first."""
        return ["cpu:0"]

    def on_device(self, name: str) -> Engine:
        """The engine whose programs run on one of its devices: the same object for the same name.
        If there is no other device, it is this engine.

        Such an engine has `device` set. It is the key of values that are there, so variables move
        when a program on the device first reads them.

        Raises:
            ValueError: if there is no such device.
        """
        known = self.devices()
        if name not in known:
            raise ValueError(
                f"the engine {self.name!r} has no device {name!r}; it has {', '.join(known)}"
            )
        if len(known) == 1:
            return self
        engines: dict[str, Engine] = self.__dict__.setdefault("_on_device", {})
        if name not in engines:
            if self.device_engine is None:
                raise NotImplementedError(f"the engine {self.name!r} chooses its devices by itself")
            engines[name] = self.device_engine(name)
        return engines[name]

    device_engine: ClassVar[type[Any] | None] = None
    """The class of engines on one of several devices, made from its name (`engines.placement`)."""

    mesh: Mesh | None = None
    """The mesh of devices that programs run over; None for the engine itself (`on_mesh`)."""

    def mesh_devices(self) -> list[str]:
        """The devices of which a mesh can be made, in their order: those of all processes."""
        return self.devices()

    def on_mesh(self, mesh: Mesh) -> Engine:
        """The engine whose programs run over the devices of a mesh: the same object for the same
        mesh. On a single device it is this engine.

        Such an engine has `mesh` set, and an entry `shard` in its table. It is the key of values
        that lie on the mesh, so variables move there when a program on the mesh first reads them.
        All its values are tensors over the whole mesh. `from_numpy` and `feed` give every device
        the whole array, `placed` splits it, and `to_numpy` and `fetching` put the parts together.

        Raises:
            ValueError: if the library cannot do that, or has too few devices.
        """
        if mesh.size == 1:
            return self
        engines: dict[Mesh, Engine] = self.__dict__.setdefault("_on_mesh", {})
        if mesh not in engines:
            engines[mesh] = self.with_mesh(mesh)
        return engines[mesh]

    def with_mesh(self, mesh: Mesh) -> Engine:
        """A new engine for a mesh of several devices."""
        raise ValueError(
            f"K.set_mesh: the engine {self.name!r} computes on one device, and the mesh {mesh} has "
            f"{mesh.size}; choose an engine that computes on several (`backplane docs scaling`)"
        )


def calls_natives(value: Any, also: Callable[[Tensor], bool] = lambda t: False) -> bool:
    """Whether a parameter is a function of the library, or a graph that calls one. Nodes for which
    `also` is true count too.
    """
    if isinstance(value, Graph):
        nodes = toposort(value.outputs)
        return any(also(t) or any(calls_natives(p, also) for p in t.params.values()) for t in nodes)
    return isinstance(value, Native)


def natives(engine: Engine) -> Table:
    """The table of functions of the library, which run on their own engine only."""
    table = Table()

    @table.build("native", "stateful_native")
    def native(specs: Sequence[Spec], *, function: Native) -> Lowering:
        if function.engine.name != engine.name:
            raise TypeError(
                f"{function.name} is a function of the engine {function.engine.name!r}: a graph "
                f"that uses it cannot run on {engine.name!r}"
            )
        return engine.native(function, specs, function.results(specs))

    return table
