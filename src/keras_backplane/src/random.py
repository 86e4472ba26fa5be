"""What Keras' backends have in the module `random`."""

from backplane.keras3.random import *  # noqa: F403
