"""What serves only speed on TensorFlow. Without it, results are the same but for rounding.

- `direct`: calls of compiled programs without the wrappers of `ConcreteFunction`. Where a release
  lacks what is used, the public way serves.
- `updates`: large variables are computed in their own memory, their arithmetic by XLA. The option
  `compile=False` does without XLA.
"""
