"""The functions of Keras' backends in the module `random`."""

from backplane.keras3.random import *  # noqa: F403
