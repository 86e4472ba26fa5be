"""The NumPy engine: always installed, the living definition of every primitive."""

from backplane.engines.numpy.engine import ENGINE

__all__ = ["ENGINE"]
