"""Keras' backend functions of the module `image`."""

from backplane.keras3.ops.image import *  # noqa: F403
