"""The limits of `kernels`. Measured by `python -m benchmarks.kernels`."""

from math import inf

LIMITS: dict[str, dict[str, float]] = {
    "cntk.loops": {"float32": inf},
    "cntk.sums": {"float32": 2.2},
    "jax.loops": {"float32": 130.0},
    "jax.strided": {"float32": 25000.0, "float64": 580.0},
    "jax.sums": {"float32": 2.7},
    "jax.ynnpack": {"float32": 210000.0},
    "mlx.loops": {"float32": 510.0},
    "numpy.blocks": {"float32": 1048576},
    "tensorflow.loops": {"float32": 510.0},
    "tensorflow.updates": {"float32": 1048576, "float64": 1048576},
    "theano.updates": {"float32": 262144, "float64": 262144},
    "torch.blocks": {"float32": 4194304},
    "torch.kernels": {"float32": 11.0, "float64": 11.0},
    "torch.narrow": {"float32": 131072},
    "torch.phases": {"float32": 45.0, "float64": 0.0},
    "torch.products": {"float32": 4194304},
    "torch.windows": {"float32": 1.4, "float64": 11.0},
}
