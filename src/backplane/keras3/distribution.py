"""`keras.distribution` on Backplane: the meshes of `K.set_mesh` below Keras' devices and layouts.

A distribution of Keras becomes a mesh with axes of the same names. Steps are compiled for it, data
are split by its axis of batches, and variables lie as their layouts say. Processes count as one for
Keras: each of them feeds whole batches, and takes its part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from keras.src.backend.common import global_state

from backplane import backend as K
from backplane import engines
from backplane.core import graph
from backplane.core.mesh import Layout, Mesh, layout_of
from backplane.core.variable import Variable, lay_out
from backplane.keras3.tensor import Tensor


def list_devices(device_type: str | None = None) -> list[str]:
    """The devices of one kind, such as `cpu:0`, those of all processes; by default accelerators, if
    there are any.
    """
    found = engines.current().mesh_devices()
    kind = device_type.lower() if device_type else found[0].split(":")[0]
    return [name for name in found if name.split(":")[0] == kind]


def get_device_count(device_type: str | None = None) -> int:
    """The number of devices of one kind."""
    return len(list_devices(device_type))


def initialize(
    job_addresses: str | None, num_processes: int | None, process_id: int | None
) -> None:
    """Connect the processes, and let all of them draw the same random numbers.

    Args:
        job_addresses: The address of the first process, or a comma-separated list that begins with
            it. None if a launcher tells the library.
        num_processes: How many there are.
        process_id: Which of them this is.

    Raises:
        ValueError: if the engine computes in one process.
    """
    from keras.src.random.seed_generator import make_default_seed
    from keras.src.utils import rng_utils

    address = job_addresses.split(",")[0] if job_addresses else None
    try:
        count = engines.current().connect(address, num_processes, process_id)
    except ValueError as error:
        raise ValueError(f"keras.distribution.initialize: {error}") from None
    if rng_utils.get_random_seed() is None and count > 1:
        together = engines.current().on_mesh(Mesh.of({"processes": get_device_count()}))
        seeds = together.everyone(np.array(make_default_seed(), "int64"))
        rng_utils.set_random_seed(int(seeds[0]) % 2**31)


def num_processes() -> int:
    """1: all processes feed the same batches, so Keras does not split data among them."""
    return 1


def process_id() -> int:
    """0, as `num_processes` is 1."""
    return 0


def distribute_tensor(tensor: Any, layout: Any) -> Any:
    """A tensor in a layout. What is symbolic gets it where the program runs. Values lie where the
    programs that read them want them, so they stay as they are.
    """
    axes = _axes(layout)
    if isinstance(tensor, Tensor):
        return Tensor(K.shard(tensor.core, axes))
    if isinstance(tensor, graph.Tensor):
        return K.shard(tensor, axes)
    cell = getattr(tensor, "cell", None)
    if isinstance(cell, Variable):
        lay_out(cell, layout_of(axes, cell.ndim, "keras.distribution"))
    return tensor


distribute_variable = distribute_tensor


def distribute_data_input(batch: Any, layout: Any, batch_dim_name: str) -> Any:
    """The batch as it is: the step that reads it splits it."""
    return batch


def _to_backend_device(name: Any) -> str:
    return str(name)


def _to_backend_mesh(device_mesh: Any) -> Mesh:
    """The mesh with the axes of one of Keras.

    Raises:
        ValueError: if it does not have the first devices in their order, or the engine has too few.
    """
    wanted = [str(name) for name in np.asarray(device_mesh.devices).flat]
    known = list_devices(wanted[0].split(":")[0])[: len(wanted)]
    if wanted != known:
        raise ValueError(
            "keras.distribution: a mesh takes the devices in the order of list_devices(), which "
            f"begins with {known}; got {wanted}"
        )
    mesh = Mesh.of(dict(zip(device_mesh.axis_names, device_mesh.shape, strict=True)))
    engines.current().on_mesh(mesh)
    return mesh


def _to_backend_layout(layout: Any) -> tuple[Any, ...]:
    if layout.device_mesh is None:
        raise ValueError("keras.distribution: this TensorLayout has no device_mesh")
    return tuple(layout.axes)


def _axes(layout: Any) -> Sequence[Any]:
    axes: Sequence[Any] = layout if isinstance(layout, list | tuple) else layout.axes
    return axes


# --- what steps and variables ask -----------------------------------------------------------------


def current() -> Any:
    """Keras' distribution in force; None if there is none."""
    return global_state.get_global_attribute("distribution")


def mesh_of(distribution: Any) -> Mesh | None:
    """The mesh of a distribution that has several devices."""
    if distribution is None:
        return None
    mesh: Mesh = distribution.device_mesh.backend_mesh
    return mesh if mesh.size > 1 else None


@contextmanager
def in_force(distribution: Any) -> Iterator[None]:
    """Context manager: what is compiled inside runs over the devices of a distribution."""
    mesh = mesh_of(distribution)
    if mesh is None:
        yield
        return
    with K.set_mesh(mesh.sizes):
        yield


def layout_of_batch(distribution: Any, shape: Sequence[int | None]) -> Layout | None:
    """The layout of a batch on the mesh of a distribution."""
    if mesh_of(distribution) is None or not shape:
        return None
    return layout_of(_axes(distribution.get_data_layout(shape)), len(shape), "keras.distribution")


def place(variable: Any) -> None:
    """Let the value of a variable of Keras lie as the distribution in force says."""
    distribution = current()
    layout = getattr(variable, "_layout", None)  # Before Keras 3.15 it may not be there yet.
    if layout is None and distribution is not None:
        layout = variable._layout = distribution.get_variable_layout(variable)
    if layout is not None:
        distribute_tensor(variable, layout)
