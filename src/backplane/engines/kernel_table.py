"""The limits of `kernels`, each with the measurements that it follows from: the work, the
quantity, and the milliseconds of the two forms. `python -m benchmarks.kernels` writes this file.
"""

from math import inf

# fmt: off
Rows = tuple[tuple[str, float, float, float], ...]
MEASURED: dict[str, dict[str, tuple[float, Rows]]] = {
    "cntk.depthwise": {
        "float32": (inf, (
            ("1 × 1 over 16 × 16, 32 to 1 channels, batch 8", 1, 0.209, 0.768),
            ("2 × 2 over 16 × 16, 32 to 1 channels, batch 8", 4, 0.428, 1.06),
            ("3 × 3 over 16 × 16, 32 to 1 channels, batch 8", 9, 0.738, 1.41),
            ("5 × 5 over 16 × 16, 32 to 1 channels, batch 8", 25, 1.72, 2.49),
            ("7 × 7 over 16 × 16, 32 to 1 channels, batch 8", 49, 3.48, 4.19),
        )),
    },
    "cntk.kernels": {
        "float32": (inf, (
            ("1 × 1 over 16 × 16, 16 to 16 channels, batch 8", 1, 0.0798, 0.231),
            ("2 × 2 over 16 × 16, 16 to 16 channels, batch 8", 4, 0.371, 0.646),
            ("3 × 3 over 16 × 16, 16 to 16 channels, batch 8", 9, 0.645, 0.95),
            ("5 × 5 over 16 × 16, 16 to 16 channels, batch 8", 25, 1.69, 1.98),
            ("7 × 7 over 16 × 16, 16 to 16 channels, batch 8", 49, 3.42, 3.9),
        )),
    },
    "cntk.loops": {
        "float32": (510.0, (
            ("4 rows, 32 steps", 4, 0.394, 0.679),
            ("16 rows, 32 steps", 16, 0.786, 1.01),
            ("64 rows, 32 steps", 64, 2.43, 2.58),
            ("256 rows, 32 steps", 256, 10.8, 10.5),
            ("1024 rows, 32 steps", 1024, 49.3, 42.9),
        )),
    },
    "jax.channels": {
        "float32": (inf, (
            ("3 × 3 over 28 × 28, 1 to 32 channels, batch 16", 9, 0.797, 1.4),
            ("5 × 5 over 28 × 28, 1 to 32 channels, batch 16", 25, 1.41, 2.36),
            ("7 × 7 over 28 × 28, 1 to 32 channels, batch 16", 49, 2.57, 3.94),
            ("9 × 9 over 28 × 28, 1 to 32 channels, batch 16", 81, 3.97, 6.51),
        )),
        "float64": (inf, (
            ("3 × 3 over 28 × 28, 1 to 32 channels, batch 16", 9, 2.02, 23.3),
            ("5 × 5 over 28 × 28, 1 to 32 channels, batch 16", 25, 4.02, 59.6),
            ("7 × 7 over 28 × 28, 1 to 32 channels, batch 16", 49, 6.27, 104.0),
            ("9 × 9 over 28 × 28, 1 to 32 channels, batch 16", 81, 12.6, 163.0),
        )),
    },
    "jax.cubes": {
        "float32": (inf, (
            ("2 × 2 × 2 over 10 × 10 × 10, 8 to 16 channels, batch 4", 8, 0.863, 4.44),
            ("3 × 3 × 3 over 10 × 10 × 10, 8 to 16 channels, batch 4", 27, 3.19, 13.3),
            ("5 × 5 × 5 over 10 × 10 × 10, 8 to 16 channels, batch 4", 125, 28.6, 54.8),
        )),
        "float64": (inf, (
            ("2 × 2 × 2 over 10 × 10 × 10, 8 to 16 channels, batch 4", 8, 1.55, 7.89),
            ("3 × 3 × 3 over 10 × 10 × 10, 8 to 16 channels, batch 4", 27, 6.93, 29.6),
            ("5 × 5 × 5 over 10 × 10 × 10, 8 to 16 channels, batch 4", 125, 60.4, 140.0),
        )),
    },
    "jax.loops": {
        "float32": (130.0, (
            ("4 rows, 32 steps", 4, 0.197, 0.462),
            ("16 rows, 32 steps", 16, 0.712, 0.878),
            ("64 rows, 32 steps", 64, 2.87, 2.76),
            ("256 rows, 32 steps", 256, 12.4, 11.7),
            ("1024 rows, 32 steps", 1024, 83.2, 67.1),
        )),
    },
    "jax.points": {
        "float32": (260.0, (
            ("1 × 1 over 16 × 16, 8 to 8 channels, batch 8", 64, 0.0585, 0.0607),
            ("1 × 1 over 16 × 16, 16 to 64 channels, batch 8", 1024, 0.251, 0.22),
            ("1 × 1 over 8 × 8, 64 to 64 channels, batch 8", 4096, 0.189, 0.174),
            ("1 × 1 over 8 × 8, 256 to 64 channels, batch 8", 16384, 0.628, 0.605),
            ("1 × 1 over 4 × 4, 512 to 512 channels, batch 8", 262144, 2.29, 2.13),
        )),
        "float64": (0.0, (
            ("1 × 1 over 16 × 16, 8 to 8 channels, batch 8", 64, 0.219, 0.205),
            ("1 × 1 over 16 × 16, 16 to 64 channels, batch 8", 1024, 2.81, 2.63),
            ("1 × 1 over 8 × 8, 64 to 64 channels, batch 8", 4096, 0.446, 0.352),
            ("1 × 1 over 8 × 8, 256 to 64 channels, batch 8", 16384, 1.59, 1.27),
            ("1 × 1 over 4 × 4, 512 to 512 channels, batch 8", 262144, 6.37, 4.7),
        )),
    },
    "jax.small_images": {
        "float32": (580.0, (
            ("3 × 3 over 2 × 2, 4 to 4 channels, batch 8", 144, 0.0255, 0.0262),
            ("3 × 3 over 2 × 2, 16 to 16 channels, batch 8", 2304, 0.0322, 0.0316),
            ("3 × 3 over 2 × 2, 64 to 64 channels, batch 8", 36864, 0.612, 0.109),
            ("3 × 3 over 2 × 2, 256 to 256 channels, batch 8", 589824, 17.3, 1.51),
        )),
        "float64": (580.0, (
            ("3 × 3 over 2 × 2, 4 to 4 channels, batch 8", 144, 0.0243, 0.0256),
            ("3 × 3 over 2 × 2, 16 to 16 channels, batch 8", 2304, 0.0417, 0.0392),
            ("3 × 3 over 2 × 2, 64 to 64 channels, batch 8", 36864, 1.16, 0.242),
            ("3 × 3 over 2 × 2, 256 to 256 channels, batch 8", 589824, 44.1, 4.12),
        )),
    },
    "jax.strided": {
        "float32": (580.0, (
            ("3 × 3 over 16 × 16, 4 to 4 channels, batch 8", 144, 0.0878, 0.0997),
            ("3 × 3 over 16 × 16, 16 to 16 channels, batch 8", 2304, 0.195, 0.179),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 36864, 1.07, 1.05),
            ("3 × 3 over 16 × 16, 128 to 128 channels, batch 8", 147456, 3.8, 3.6),
        )),
        "float64": (580.0, (
            ("3 × 3 over 16 × 16, 4 to 4 channels, batch 8", 144, 0.146, 0.151),
            ("3 × 3 over 16 × 16, 16 to 16 channels, batch 8", 2304, 2.27, 1.9),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 36864, 26.7, 17.8),
            ("3 × 3 over 16 × 16, 128 to 128 channels, batch 8", 147456, 135.0, 73.4),
        )),
    },
    "mlx.loops": {
        "float32": (130.0, (
            ("4 rows, 32 steps", 4, 4.32, 4.68),
            ("16 rows, 32 steps", 16, 15.2, 15.6),
            ("64 rows, 32 steps", 64, 58.6, 58.0),
            ("256 rows, 32 steps", 256, 236.0, 232.0),
            ("1024 rows, 32 steps", 1024, 963.0, 950.0),
        )),
    },
    "numpy.blocks": {
        "float32": (93000.0, (
            ("65,536 elements", 65536, 0.124, 0.138),
            ("131,072 elements", 131072, 0.287, 0.268),
            ("262,144 elements", 262144, 0.616, 0.526),
            ("524,288 elements", 524288, 1.38, 1.05),
            ("1,048,576 elements", 1048576, 2.99, 2.37),
            ("2,097,152 elements", 2097152, 6.74, 5.42),
            ("4,194,304 elements", 4194304, 22.0, 10.9),
        )),
    },
    "numpy.columns": {
        "float32": (2.8, (
            ("3 × 3 over 4 × 4, 4 to 4 channels, batch 8", 2.0, 0.104, 0.101),
            ("3 × 3 over 4 × 4, 16 to 16 channels, batch 8", 2.0, 0.131, 0.125),
            ("3 × 3 over 4 × 4, 64 to 64 channels, batch 8", 2.0, 0.438, 0.446),
            ("3 × 3 over 8 × 8, 4 to 4 channels, batch 8", 4.0, 0.137, 0.143),
            ("3 × 3 over 8 × 8, 16 to 16 channels, batch 8", 4.0, 0.262, 0.244),
            ("3 × 3 over 8 × 8, 64 to 64 channels, batch 8", 4.0, 1.33, 1.23),
            ("3 × 3 over 16 × 16, 4 to 4 channels, batch 8", 8.0, 0.274, 0.292),
            ("3 × 3 over 16 × 16, 16 to 16 channels, batch 8", 8.0, 0.829, 0.683),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 8.0, 5.16, 4.87),
            ("3 × 3 over 32 × 32, 4 to 4 channels, batch 8", 16.0, 0.927, 0.815),
            ("3 × 3 over 32 × 32, 16 to 16 channels, batch 8", 16.0, 2.91, 2.51),
            ("3 × 3 over 32 × 32, 64 to 64 channels, batch 8", 16.0, 21.6, 19.2),
            ("3 × 3 over 64 × 64, 4 to 4 channels, batch 8", 32.0, 3.43, 3.0),
            ("3 × 3 over 64 × 64, 16 to 16 channels, batch 8", 32.0, 12.2, 9.87),
            ("3 × 3 over 64 × 64, 64 to 64 channels, batch 8", 32.0, 81.5, 80.0),
        )),
        "float64": (2.8, (
            ("3 × 3 over 4 × 4, 4 to 4 channels, batch 8", 2.0, 0.111, 0.107),
            ("3 × 3 over 4 × 4, 16 to 16 channels, batch 8", 2.0, 0.166, 0.154),
            ("3 × 3 over 4 × 4, 64 to 64 channels, batch 8", 2.0, 0.85, 0.96),
            ("3 × 3 over 8 × 8, 4 to 4 channels, batch 8", 4.0, 0.16, 0.156),
            ("3 × 3 over 8 × 8, 16 to 16 channels, batch 8", 4.0, 0.459, 0.404),
            ("3 × 3 over 8 × 8, 64 to 64 channels, batch 8", 4.0, 2.89, 2.89),
            ("3 × 3 over 16 × 16, 4 to 4 channels, batch 8", 8.0, 0.362, 0.331),
            ("3 × 3 over 16 × 16, 16 to 16 channels, batch 8", 8.0, 1.54, 1.29),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 8.0, 11.5, 11.0),
            ("3 × 3 over 32 × 32, 4 to 4 channels, batch 8", 16.0, 1.19, 0.963),
            ("3 × 3 over 32 × 32, 16 to 16 channels, batch 8", 16.0, 6.13, 5.0),
            ("3 × 3 over 32 × 32, 64 to 64 channels, batch 8", 16.0, 46.2, 44.5),
            ("3 × 3 over 64 × 64, 4 to 4 channels, batch 8", 32.0, 4.8, 3.66),
            ("3 × 3 over 64 × 64, 16 to 16 channels, batch 8", 32.0, 24.9, 20.7),
            ("3 × 3 over 64 × 64, 64 to 64 channels, batch 8", 32.0, 183.0, 182.0),
        )),
    },
    "numpy.loops": {
        "float32": (inf, (
            ("4 rows, 32 steps", 4, 0.375, 0.746),
            ("16 rows, 32 steps", 16, 0.823, 1.14),
            ("64 rows, 32 steps", 64, 2.83, 3.34),
            ("256 rows, 32 steps", 256, 13.0, 12.5),
            ("1024 rows, 32 steps", 1024, 56.1, 64.5),
        )),
    },
    "tensorflow.loops": {
        "float32": (510.0, (
            ("4 rows, 32 steps", 4, 0.937, 1.27),
            ("16 rows, 32 steps", 16, 1.35, 1.63),
            ("64 rows, 32 steps", 64, 3.05, 3.28),
            ("256 rows, 32 steps", 256, 11.1, 10.8),
            ("1024 rows, 32 steps", 1024, 47.0, 44.0),
        )),
    },
    "tensorflow.updates": {
        "float32": (1048576, (
            ("65,536 elements", 262144, 0.151, 0.152),
            ("131,072 elements", 524288, 0.26, 0.233),
            ("262,144 elements", 1048576, 0.508, 0.373),
            ("524,288 elements", 2097152, 0.951, 0.626),
            ("1,048,576 elements", 4194304, 1.81, 1.15),
            ("2,097,152 elements", 8388608, 4.63, 2.9),
            ("4,194,304 elements", 16777216, 11.9, 6.87),
        )),
        "float64": (1048576, (
            ("65,536 elements", 262144, 0.255, 0.287),
            ("131,072 elements", 524288, 0.511, 0.48),
            ("262,144 elements", 1048576, 0.967, 0.798),
            ("524,288 elements", 2097152, 1.78, 1.46),
            ("1,048,576 elements", 4194304, 5.0, 3.4),
            ("2,097,152 elements", 8388608, 11.7, 7.91),
            ("4,194,304 elements", 16777216, 29.2, 19.7),
        )),
    },
    "theano.loops": {
        "float32": (inf, (
            ("4 rows, 32 steps", 4, 0.357, 0.691),
            ("16 rows, 32 steps", 16, 0.822, 1.15),
            ("64 rows, 32 steps", 64, 2.85, 3.12),
            ("256 rows, 32 steps", 256, 12.0, 11.9),
            ("1024 rows, 32 steps", 1024, 55.3, 62.5),
        )),
    },
    "theano.updates": {
        "float32": (262144, (
            ("65,536 elements", 65536, 0.0478, 0.0266),
            ("131,072 elements", 131072, 0.101, 0.0697),
            ("262,144 elements", 262144, 0.19, 0.134),
            ("524,288 elements", 524288, 0.366, 0.248),
            ("1,048,576 elements", 1048576, 0.691, 0.462),
            ("2,097,152 elements", 2097152, 1.48, 0.945),
            ("4,194,304 elements", 4194304, 4.57, 2.46),
        )),
        "float64": (262144, (
            ("65,536 elements", 65536, 0.0913, 0.068),
            ("131,072 elements", 131072, 0.179, 0.131),
            ("262,144 elements", 262144, 0.326, 0.245),
            ("524,288 elements", 524288, 0.616, 0.46),
            ("1,048,576 elements", 1048576, 1.28, 0.925),
            ("2,097,152 elements", 2097152, 4.38, 2.35),
            ("4,194,304 elements", 4194304, 9.48, 5.9),
        )),
    },
    "torch.biases": {
        "float32": (93000.0, (
            ("64 × 128 × 64", 4096, 0.0297, 0.029),
            ("128 × 128 × 256", 32768, 0.0861, 0.0861),
            ("512 × 128 × 512", 262144, 0.455, 0.455),
            ("2048 × 128 × 512", 1048576, 1.91, 1.96),
            ("4096 × 128 × 1024", 4194304, 10.1, 8.91),
        )),
        "float64": (12000.0, (
            ("64 × 128 × 64", 4096, 0.0221, 0.0226),
            ("128 × 128 × 256", 32768, 0.124, 0.113),
            ("512 × 128 × 512", 262144, 0.939, 0.928),
            ("2048 × 128 × 512", 1048576, 3.95, 3.91),
            ("4096 × 128 × 1024", 4194304, 29.0, 30.8),
        )),
    },
    "torch.blocks": {
        "float32": (370000.0, (
            ("65,536 elements", 65536, 0.118, 0.147),
            ("131,072 elements", 131072, 0.247, 0.275),
            ("262,144 elements", 262144, 0.53, 0.509),
            ("524,288 elements", 524288, 1.3, 1.0),
            ("1,048,576 elements", 1048576, 2.69, 2.21),
            ("2,097,152 elements", 2097152, 7.26, 5.53),
            ("4,194,304 elements", 4194304, 16.9, 11.3),
        )),
    },
    "torch.loops": {
        "float32": (inf, (
            ("4 rows, 32 steps", 4, 0.596, 0.961),
            ("16 rows, 32 steps", 16, 1.23, 1.39),
            ("64 rows, 32 steps", 64, 3.07, 2.77),
            ("256 rows, 32 steps", 256, 13.7, 13.5),
            ("1024 rows, 32 steps", 1024, 54.2, 65.4),
        )),
    },
    "torch.points": {
        "float32": (0.0, (
            ("1 × 1 over 16 × 16, 8 to 8 channels, batch 8", 64, 0.116, 0.0661),
            ("1 × 1 over 16 × 16, 16 to 64 channels, batch 8", 1024, 0.292, 0.201),
            ("1 × 1 over 8 × 8, 64 to 64 channels, batch 8", 4096, 0.215, 0.144),
            ("1 × 1 over 8 × 8, 256 to 64 channels, batch 8", 16384, 0.629, 0.422),
            ("1 × 1 over 4 × 4, 512 to 512 channels, batch 8", 262144, 2.82, 1.42),
        )),
        "float64": (0.0, (
            ("1 × 1 over 16 × 16, 8 to 8 channels, batch 8", 64, 0.123, 0.0716),
            ("1 × 1 over 16 × 16, 16 to 64 channels, batch 8", 1024, 0.505, 0.384),
            ("1 × 1 over 8 × 8, 64 to 64 channels, batch 8", 4096, 0.327, 0.237),
            ("1 × 1 over 8 × 8, 256 to 64 channels, batch 8", 16384, 1.07, 0.754),
            ("1 × 1 over 4 × 4, 512 to 512 channels, batch 8", 262144, 6.43, 2.85),
        )),
    },
    "torch.products": {
        "float32": (4194304, (
            ("32 × 32 × 32", 32768, 0.00657, 0.0213),
            ("64 × 64 × 64", 262144, 0.00993, 0.0239),
            ("96 × 96 × 96", 884736, 0.0178, 0.0345),
            ("128 × 128 × 128", 2097152, 0.034, 0.0489),
            ("192 × 192 × 192", 7077888, 0.0922, 0.12),
            ("256 × 256 × 256", 16777216, 0.219, 0.261),
            ("512 × 512 × 512", 134217728, 1.62, 1.72),
        )),
    },
    "torch.windows": {
        "float32": (2.8, (
            ("3 × 3 over 8 × 8, 16 to 16 channels, batch 8", 32.0, 0.432, 0.33),
            ("3 × 3 over 2 × 2, 512 to 512 channels, batch 2", 0.015625, 5.39, 75.0),
            ("3 × 3 over 2 × 2, 512 to 512 channels, batch 8", 0.0625, 7.96, 79.1),
            ("3 × 3 over 4 × 4, 256 to 256 channels, batch 8", 0.5, 4.28, 12.2),
            ("3 × 3 over 8 × 8, 256 to 256 channels, batch 8", 2.0, 14.0, 19.9),
            ("3 × 3 over 8 × 8, 128 to 128 channels, batch 8", 4.0, 4.04, 3.71),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 32.0, 4.79, 3.11),
            ("3 × 3 over 32 × 32, 32 to 32 channels, batch 8", 256.0, 7.66, 3.34),
        )),
        "float64": (11.0, (
            ("3 × 3 over 8 × 8, 16 to 16 channels, batch 8", 32.0, 0.536, 0.365),
            ("3 × 3 over 2 × 2, 512 to 512 channels, batch 2", 0.015625, 11.4, 81.4),
            ("3 × 3 over 2 × 2, 512 to 512 channels, batch 8", 0.0625, 14.4, 93.6),
            ("3 × 3 over 4 × 4, 256 to 256 channels, batch 8", 0.5, 7.44, 24.1),
            ("3 × 3 over 8 × 8, 256 to 256 channels, batch 8", 2.0, 28.7, 42.9),
            ("3 × 3 over 8 × 8, 128 to 128 channels, batch 8", 4.0, 7.25, 7.75),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 32.0, 13.0, 11.4),
            ("3 × 3 over 32 × 32, 32 to 32 channels, batch 8", 256.0, 13.7, 10.2),
        )),
    },
}
