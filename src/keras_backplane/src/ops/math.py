"""Keras' backend functions of the module `math`."""

from backplane.keras3.ops.math import *  # noqa: F403
