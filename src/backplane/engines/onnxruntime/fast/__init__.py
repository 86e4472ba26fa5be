"""Modules that serve only speed on ONNX Runtime."""

from backplane.engines.fast import Piece

PIECES = (
    Piece("onnxruntime.folding",
          "make sums and products per channel a part of the convolution before them",
          "a prediction of DenseNet-121 takes 0.71 of the time",
          "sessions whose weights are constants"),
    Piece("onnxruntime.frozen", "run sessions whose weights are constants",
          "predictions take 0.21 to 0.98 of the time",
          "functions without updates that find the same values at 16 calls", "pass freeze"),
    Piece("onnxruntime.updates", "write the steps of optimizers over old values, by NumPy",
          "a training step of a ResNet-50 takes 0.91 of the time",
          "large variables, and rows of large tables", "pass optimizer_steps"),
)  # fmt: skip
