"""PyTensor, the maintained continuation of Theano, under the name `theano`."""

from backplane.engines.pytensor.engine import ENGINE

__all__ = ["ENGINE"]
