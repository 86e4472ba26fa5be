"""The engine `mlx`: Apple's MLX, on the GPU of a Mac or on any processor."""

from backplane.engines.mlx.engine import ENGINE

__all__ = ["ENGINE"]
