"""The engine `torch`: PyTorch, on any of its devices."""

from backplane.engines.torch.placement import ENGINE

__all__ = ["ENGINE"]
