"""Modules that serve only speed on NumPy arrays."""

from backplane.engines.fast import Piece

PIECES = (
    Piece("arrays.buffers", "use the memory of large arrays again",
          "a sixth of the time of a training step of an LSTM, a third of a step of Adam",
          "stacks of loops, from 128 KB to 64 MB altogether; new values of variables"),
    Piece("arrays.updates", "write the steps of optimizers over old values, block by block",
          "training steps take 0.78 to 0.96 of the time on NumPy, for large variables",
          "descent, momentum and Adam of large variables; for ONNX Runtime, other steps too",
          "pass optimizer_steps"),
)  # fmt: skip
