"""The limits of `kernels`. Measured by `python -m benchmarks.kernels`."""

from math import inf

LIMITS: dict[str, dict[str, float]] = {
    "cntk.loops": {"float32": 510.0},
    "jax.loops": {"float32": 130.0},
    "jax.points": {"float32": 260.0, "float64": 0.0},
    "jax.predicted_loops": {"float32": 0.0},
    "jax.small_images": {"float32": 580.0, "float64": 580.0},
    "jax.strided": {"float32": 25000.0, "float64": 580.0},
    "jax.ynnpack": {"float32": 210000.0},
    "mlx.loops": {"float32": 130.0},
    "numpy.blocks": {"float32": 93000.0},
    "numpy.columns": {"float32": 2.8, "float64": 2.8},
    "numpy.loops": {"float32": inf},
    "tensorflow.loops": {"float32": 510.0},
    "tensorflow.updates": {"float32": 1048576, "float64": 1048576},
    "theano.loops": {"float32": inf},
    "theano.updates": {"float32": 262144, "float64": 262144},
    "torch.biases": {"float32": 93000.0, "float64": 12000.0},
    "torch.blocks": {"float32": 370000.0},
    "torch.loops": {"float32": inf},
    "torch.phases": {"float32": 11.0, "float64": inf},
    "torch.products": {"float32": 4194304},
    "torch.windows": {"float32": 2.8, "float64": 11.0},
}
