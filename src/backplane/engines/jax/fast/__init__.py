"""Modules that serve only speed on JAX."""

from backplane.engines.fast import Piece

PIECES = (
    Piece("jax.cpu", "convolve in forms that XLA is good at",
          "from half to a hundredth of the time, by the shapes", "the processor"),
    Piece("jax.depthwise", "convolve each channel by itself as a sum of products",
          "a thirtieth of the time", "the processor, one group for each channel", "piece jax.cpu"),
    Piece("jax.sorting", "sort numbers and their positions as one array of int64",
          "512 rows of 64 numbers take a fifth of the time", "the processor, at most 32 bits"),
    Piece("jax.ynnpack", "let the library YNNPACK compute all convolutions of a program",
          "predictions take 0.91 to 0.96 of the time",
          "programs without gradients by kernels, below the limit of the choice",
          "choice jax.ynnpack"),
)  # fmt: skip
