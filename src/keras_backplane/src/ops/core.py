"""Keras' backend functions of the module `core`."""

from backplane.keras3.ops.core import *  # noqa: F403
