"""The functions of Keras' backends in the module `rnn`."""

from backplane.keras3.rnn import *  # noqa: F403
