"""The engine `jax`: JAX, compiled by XLA, on any of its devices."""

from backplane.engines.jax.placement import ENGINE

__all__ = ["ENGINE"]
