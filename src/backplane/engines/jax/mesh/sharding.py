"""JAX over a mesh of devices: programs whose operands lie on all of them.

XLA's partitioner makes of a program for whole tensors one for the parts of each device, from the
layouts of what goes in and of what `shard` says on the way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from backplane.core.mesh import Layout, Mesh, check_layout
from backplane.core.variable import Block
from backplane.engines.base import Engine
from backplane.engines.jax import elementwise, memory, random
from backplane.engines.jax.engine import JaxEngine
from backplane.engines.jax.mesh.gathers import Gathers
from backplane.engines.programs import Function
from backplane.engines.roles.processes import Read, agree
from backplane.engines.table import Ints, Lowering, Value


class MeshEngine(JaxEngine):
    """JAX, whose programs run over a mesh."""

    takes_arrays = False
    mesh: Mesh

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        agree(self, "K.set_mesh: the mesh", str(mesh))
        self.grid = _grid(mesh)
        self.table.add("shard")(self._shard)
        checks = partial(elementwise.check_numerics, everywhere=self._everywhere)
        self.table.add("check_numerics")(checks)
        self.table.update(random.table(random.words_in_parts))
        self.gathers = Gathers(mesh.size)
        self.gathers.watch(self.table, wanted=("shard",))

    def _shard(self, x: Value, *, layout: Layout) -> Value:
        check_layout(layout, x.shape, self.mesh, "K.shard")
        return jax.lax.with_sharding_constraint(x, self._sharding(layout))

    def _everywhere(self, ask: Lowering) -> Lowering:
        """`ask`, called on each device. If one fails, the others fail too and need not wait."""
        nothing = PartitionSpec()
        return jax.shard_map(
            ask, mesh=self.grid, in_specs=nothing, out_specs=nothing, check_vma=False
        )

    def _sharding(self, layout: Layout | None) -> NamedSharding:
        entries = [names or None for names in layout or ()]
        return NamedSharding(self.grid, PartitionSpec(*entries))

    # --- programs -------------------------------------------------------------------------------

    def jitted(self, function: Function, options: dict[str, str] | None) -> Function:
        """The jitted function. The compiler's result for each set of shapes is looked at."""
        run: Any = super().jitted(function, options)
        seen: set[tuple[Ints, ...]] = set()

        def call(*inputs: Value) -> tuple[Value, ...]:
            shapes = tuple([x.shape for x in inputs])
            if shapes not in seen and not any(isinstance(x, jax.core.Tracer) for x in inputs):
                self.look(run.lower(*inputs).compile())
                seen.add(shapes)
            return run(*inputs)

        return call

    def look(self, compiled: Any) -> None:
        """Warn of what is gathered, in the first process."""
        self.gathers.tell(compiled.as_text() if self.process == 0 else "")

    # --- processes ------------------------------------------------------------------------------

    @property
    def process(self) -> int:
        """As JAX counts them."""
        return jax.process_index()

    def everyone(self, array: np.ndarray) -> np.ndarray:
        """Gathered by JAX."""
        if jax.process_count() == 1:
            return array[None]
        return np.asarray(multihost_utils.process_allgather(array))

    # --- values ---------------------------------------------------------------------------------

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """The whole array on each device."""
        return self.placed(array, dtype or array.dtype.name, None)

    feed = Engine.feed
    fetching = Engine.fetching

    def detached(self, value: Value) -> Value:
        """The value on each device."""
        return self.placed(value, value.dtype.name, None)

    def placed(self, value: Any, dtype: str, layout: Layout | None) -> Value:
        """Each device gets its part, from the processes that it belongs to."""
        sharding = self._sharding(layout)
        with memory.wide(), jax.ensure_compile_time_eval():
            if sharding.is_fully_addressable or not _is_local(value):
                # A copy of arrays, because JAX may keep the memory itself.
                local = isinstance(value, np.ndarray)
                return jax.device_put(np.array(value, dtype) if local else value, sharding)
            array = np.array(value, dtype)
            return jax.make_array_from_callback(array.shape, sharding, array.__getitem__)

    def parts(self, value: Value) -> list[Block] | None:
        """The parts of the first copy that are on devices of this process."""
        value = memory.latest(value)
        if _is_local(value) or value.is_fully_replicated:
            return None
        mine = [part for part in value.addressable_shards if part.replica_id == 0]
        return [(tuple([s.start or 0 for s in part.index]), np.array(part.data)) for part in mine]

    def assembled(self, read: Read, shape: Ints, dtype: str, layout: Layout) -> Value:
        """Each device gets its part."""
        with memory.wide(), jax.ensure_compile_time_eval():
            return jax.make_array_from_callback(tuple(shape), self._sharding(layout), read)

    def to_numpy(self, value: Value) -> np.ndarray:
        """All parts together."""
        if not (_is_local(value) or value.is_fully_replicated):
            value = jax.jit(lambda x: x, out_shardings=self._sharding(None))(value)
        return super().to_numpy(value)


def _is_local(value: Any) -> bool:
    return not isinstance(value, jax.Array) or value.is_fully_addressable


def _grid(mesh: Mesh) -> jax.sharding.Mesh:
    """The devices in their places. ValueError if there are too few."""
    devices = jax.devices()
    if jax.process_count() > 1 and len(devices) > mesh.size:
        raise ValueError(
            f"K.set_mesh: the mesh {mesh} has {mesh.size} devices; the {jax.process_count()} "
            f"processes have {len(devices)}, all of which take part"
        )
    if len(devices) < mesh.size:
        kind = devices[0].platform
        more = (
            ': the setting jax.config.update("jax_num_cpu_devices", …), before JAX is first used, '
            "makes devices of one processor"
            if kind == "cpu"
            else ""
        )
        raise ValueError(
            f"K.set_mesh: the mesh {mesh} has {mesh.size} devices, and JAX sees {len(devices)} "
            f"({kind}){more}"
        )
    names, sizes = zip(*mesh.axes, strict=True)
    kinds = (AxisType.Auto,) * len(names)
    return jax.make_mesh(sizes, names, axis_types=kinds, devices=devices[: mesh.size])
