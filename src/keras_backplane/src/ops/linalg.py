"""Keras' backend functions of the module `linalg`."""

from backplane.keras3.ops.linalg import *  # noqa: F403
