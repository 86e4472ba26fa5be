"""What serves only speed on JAX, all of it on a CPU. Without it, results are the same
but for rounding.

- `cpu`: convolutions in forms that XLA is good at: from half to a hundredth of the time, by their
  shapes. Elsewhere, `native` has them as JAX writes them.
- `depthwise`: sums of products for channels by themselves: a thirtieth of the time.
- `ynnpack`: the library that computes a program's convolutions: predictions take 0.91 to 0.96 of
  the time where it is chosen (`jax.ynnpack` in the table of kernels).
- `sorting`: numbers and their positions as one array: a fifth of the time.
"""
