"""Tensors of ours as arguments of JAX's functions: `jnp.sin(K.variable(1.0))`.

JAX asks an object for its array (`__jax_array__`) only where it computes with it at once. Most of
its functions are compiled, and take the leaves of their arguments instead. So a tensor counts as a
tree whose only leaf is its value.
"""

from __future__ import annotations

from typing import Any

import jax

from backplane.core.graph import ArrayInput, Constant, KeySource, Placeholder, Tensor
from backplane.core.variable import Variable


def _leaves(x: Tensor) -> tuple[tuple[Any], None]:
    value = x.__jax_array__()
    if isinstance(value, Tensor):
        raise TypeError(
            f"{x!r} cannot be an argument of a function of JAX, because it has no value that JAX "
            "can hold: use the functions of K, K.native or, for a value, K.eval"
        )
    return (value,), None


def register() -> None:
    """Tell JAX about the classes of tensors: it looks for the very class of an object."""
    for kind in (Tensor, Variable, Constant, Placeholder, ArrayInput, KeySource):
        jax.tree_util.register_pytree_node(kind, _leaves, lambda _, leaves: leaves[0])
