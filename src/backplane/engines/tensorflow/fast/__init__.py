"""Modules that serve only speed on TensorFlow."""

from backplane.engines.fast import Piece

PIECES = (
    Piece("tensorflow.direct", "call compiled programs without the wrappers of `ConcreteFunction`",
          "a call of `tanh(x @ W + b)`, 8 × 8, takes 0.39 of the time",
          "releases that have what is used"),
    Piece("tensorflow.updates",
          "compute large variables in their own memory, their arithmetic by XLA",
          "a step of momentum on a million weights takes 0.64 of the time",
          "variables from 65,536 elements on; XLA from the limit `tensorflow.updates` on"),
)  # fmt: skip
