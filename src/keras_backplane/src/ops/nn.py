"""Keras' backend functions of the module `nn`."""

from backplane.keras3.ops.nn import *  # noqa: F403
