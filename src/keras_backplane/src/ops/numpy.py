"""Keras' backend functions of the module `numpy`."""

from backplane.keras3.ops.numpy import *  # noqa: F403
