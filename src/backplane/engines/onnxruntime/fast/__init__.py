"""What serves only speed on ONNX Runtime. Without it, results are the same but for rounding.

- `folding`: sums and products per channel become part of a convolution, in sessions whose weights
  are constants: 0.71 of a prediction of DenseNet-121.
- `frozen`: such sessions, for functions without updates that find the same values at some calls.
  Without the pass `freeze`, there are none.
- `updates`: steps of optimizers in the memory of the variables, by NumPy. Without the pass
  `optimizer_steps`, and `rows` for those of tables, the session computes them.
"""
