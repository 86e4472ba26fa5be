"""The limits of `kernels`, each with the measurements that it follows from: the work, the
quantity, and the milliseconds of the two forms. `python -m benchmarks.kernels` writes this file.
"""

from math import inf

# fmt: off
Rows = tuple[tuple[str, float, float, float], ...]
MEASURED: dict[str, dict[str, tuple[float, Rows]]] = {
    "cntk.depthwise": {
        "float32": (inf, (
            ("1 × 1 over 16 × 16, 32 to 1 channels, batch 8", 1, 0.22, 0.786),
            ("2 × 2 over 16 × 16, 32 to 1 channels, batch 8", 4, 0.452, 1.08),
            ("3 × 3 over 16 × 16, 32 to 1 channels, batch 8", 9, 0.818, 1.51),
            ("5 × 5 over 16 × 16, 32 to 1 channels, batch 8", 25, 1.96, 2.64),
            ("7 × 7 over 16 × 16, 32 to 1 channels, batch 8", 49, 4.17, 4.87),
        )),
    },
    "cntk.kernels": {
        "float32": (inf, (
            ("1 × 1 over 16 × 16, 16 to 16 channels, batch 8", 1, 0.0841, 0.232),
            ("2 × 2 over 16 × 16, 16 to 16 channels, batch 8", 4, 0.388, 0.667),
            ("3 × 3 over 16 × 16, 16 to 16 channels, batch 8", 9, 0.688, 0.959),
            ("5 × 5 over 16 × 16, 16 to 16 channels, batch 8", 25, 1.87, 2.23),
            ("7 × 7 over 16 × 16, 16 to 16 channels, batch 8", 49, 3.68, 4.33),
        )),
    },
    "cntk.loops": {
        "float32": (130.0, (
            ("4 rows, 32 steps", 4, 0.41, 0.661),
            ("16 rows, 32 steps", 16, 0.842, 1.09),
            ("64 rows, 32 steps", 64, 2.93, 3.08),
            ("256 rows, 32 steps", 256, 12.9, 11.7),
            ("1024 rows, 32 steps", 1024, 52.5, 46.1),
        )),
    },
    "jax.channels": {
        "float32": (inf, (
            ("3 × 3 over 28 × 28, 1 to 32 channels, batch 16", 9, 0.877, 1.52),
            ("5 × 5 over 28 × 28, 1 to 32 channels, batch 16", 25, 1.61, 2.61),
            ("7 × 7 over 28 × 28, 1 to 32 channels, batch 16", 49, 2.95, 4.6),
            ("9 × 9 over 28 × 28, 1 to 32 channels, batch 16", 81, 5.68, 7.4),
        )),
        "float64": (inf, (
            ("3 × 3 over 28 × 28, 1 to 32 channels, batch 16", 9, 2.45, 25.1),
            ("5 × 5 over 28 × 28, 1 to 32 channels, batch 16", 25, 4.43, 62.9),
            ("7 × 7 over 28 × 28, 1 to 32 channels, batch 16", 49, 7.26, 114.0),
            ("9 × 9 over 28 × 28, 1 to 32 channels, batch 16", 81, 14.5, 177.0),
        )),
    },
    "jax.cubes": {
        "float32": (inf, (
            ("2 × 2 × 2 over 10 × 10 × 10, 8 to 16 channels, batch 4", 8, 1.17, 4.51),
            ("3 × 3 × 3 over 10 × 10 × 10, 8 to 16 channels, batch 4", 27, 4.57, 13.8),
            ("5 × 5 × 5 over 10 × 10 × 10, 8 to 16 channels, batch 4", 125, 31.0, 56.5),
        )),
        "float64": (inf, (
            ("2 × 2 × 2 over 10 × 10 × 10, 8 to 16 channels, batch 4", 8, 2.13, 8.17),
            ("3 × 3 × 3 over 10 × 10 × 10, 8 to 16 channels, batch 4", 27, 8.08, 30.9),
            ("5 × 5 × 5 over 10 × 10 × 10, 8 to 16 channels, batch 4", 125, 67.1, 144.0),
        )),
    },
    "jax.loops": {
        "float32": (32.0, (
            ("4 rows, 32 steps", 4, 0.238, 0.507),
            ("16 rows, 32 steps", 16, 1.02, 1.27),
            ("64 rows, 32 steps", 64, 4.33, 3.78),
            ("256 rows, 32 steps", 256, 15.8, 14.6),
            ("1024 rows, 32 steps", 1024, 92.3, 69.0),
        )),
    },
    "jax.points": {
        "float32": (260.0, (
            ("1 × 1 over 16 × 16, 8 to 8 channels, batch 8", 64, 0.0615, 0.064),
            ("1 × 1 over 16 × 16, 16 to 64 channels, batch 8", 1024, 0.256, 0.236),
            ("1 × 1 over 8 × 8, 64 to 64 channels, batch 8", 4096, 0.199, 0.183),
            ("1 × 1 over 8 × 8, 256 to 64 channels, batch 8", 16384, 0.674, 0.663),
            ("1 × 1 over 4 × 4, 512 to 512 channels, batch 8", 262144, 2.78, 2.67),
        )),
        "float64": (0.0, (
            ("1 × 1 over 16 × 16, 8 to 8 channels, batch 8", 64, 0.226, 0.209),
            ("1 × 1 over 16 × 16, 16 to 64 channels, batch 8", 1024, 3.29, 3.13),
            ("1 × 1 over 8 × 8, 64 to 64 channels, batch 8", 4096, 0.465, 0.363),
            ("1 × 1 over 8 × 8, 256 to 64 channels, batch 8", 16384, 1.76, 1.37),
            ("1 × 1 over 4 × 4, 512 to 512 channels, batch 8", 262144, 7.24, 4.91),
        )),
    },
    "jax.small_images": {
        "float32": (580.0, (
            ("3 × 3 over 2 × 2, 4 to 4 channels, batch 8", 144, 0.0242, 0.0254),
            ("3 × 3 over 2 × 2, 16 to 16 channels, batch 8", 2304, 0.0329, 0.0325),
            ("3 × 3 over 2 × 2, 64 to 64 channels, batch 8", 36864, 0.764, 0.232),
            ("3 × 3 over 2 × 2, 256 to 256 channels, batch 8", 589824, 18.6, 1.81),
        )),
        "float64": (9200.0, (
            ("3 × 3 over 2 × 2, 4 to 4 channels, batch 8", 144, 0.0222, 0.0259),
            ("3 × 3 over 2 × 2, 16 to 16 channels, batch 8", 2304, 0.0423, 0.0407),
            ("3 × 3 over 2 × 2, 64 to 64 channels, batch 8", 36864, 1.17, 0.247),
            ("3 × 3 over 2 × 2, 256 to 256 channels, batch 8", 589824, 51.7, 4.58),
        )),
    },
    "jax.strided": {
        "float32": (580.0, (
            ("3 × 3 over 16 × 16, 4 to 4 channels, batch 8", 144, 0.0882, 0.102),
            ("3 × 3 over 16 × 16, 16 to 16 channels, batch 8", 2304, 0.207, 0.19),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 36864, 1.2, 1.19),
            ("3 × 3 over 16 × 16, 128 to 128 channels, batch 8", 147456, 4.13, 3.99),
        )),
        "float64": (580.0, (
            ("3 × 3 over 16 × 16, 4 to 4 channels, batch 8", 144, 0.149, 0.154),
            ("3 × 3 over 16 × 16, 16 to 16 channels, batch 8", 2304, 2.43, 2.07),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 36864, 27.1, 18.4),
            ("3 × 3 over 16 × 16, 128 to 128 channels, batch 8", 147456, 137.0, 73.6),
        )),
    },
    "mlx.loops": {
        "float32": (130.0, (
            ("4 rows, 32 steps", 4, 4.68, 5.13),
            ("16 rows, 32 steps", 16, 16.1, 16.9),
            ("64 rows, 32 steps", 64, 61.2, 61.8),
            ("256 rows, 32 steps", 256, 252.0, 240.0),
            ("1024 rows, 32 steps", 1024, 1260.0, 990.0),
        )),
    },
    "numpy.blocks": {
        "float32": (190000.0, (
            ("65,536 elements", 65536, 0.129, 0.138),
            ("131,072 elements", 131072, 0.268, 0.284),
            ("262,144 elements", 262144, 0.605, 0.559),
            ("524,288 elements", 524288, 1.42, 1.19),
            ("1,048,576 elements", 1048576, 3.28, 2.77),
            ("2,097,152 elements", 2097152, 8.91, 5.64),
            ("4,194,304 elements", 4194304, 23.0, 11.3),
        )),
    },
    "numpy.columns": {
        "float32": (2.8, (
            ("3 × 3 over 4 × 4, 4 to 4 channels, batch 8", 2.0, 0.11, 0.108),
            ("3 × 3 over 4 × 4, 16 to 16 channels, batch 8", 2.0, 0.131, 0.129),
            ("3 × 3 over 4 × 4, 64 to 64 channels, batch 8", 2.0, 0.446, 0.459),
            ("3 × 3 over 8 × 8, 4 to 4 channels, batch 8", 4.0, 0.142, 0.147),
            ("3 × 3 over 8 × 8, 16 to 16 channels, batch 8", 4.0, 0.279, 0.264),
            ("3 × 3 over 8 × 8, 64 to 64 channels, batch 8", 4.0, 1.48, 1.36),
            ("3 × 3 over 16 × 16, 4 to 4 channels, batch 8", 8.0, 0.285, 0.313),
            ("3 × 3 over 16 × 16, 16 to 16 channels, batch 8", 8.0, 0.882, 0.705),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 8.0, 5.47, 5.39),
            ("3 × 3 over 32 × 32, 4 to 4 channels, batch 8", 16.0, 1.02, 0.86),
            ("3 × 3 over 32 × 32, 16 to 16 channels, batch 8", 16.0, 3.4, 3.03),
            ("3 × 3 over 32 × 32, 64 to 64 channels, batch 8", 16.0, 23.1, 20.7),
            ("3 × 3 over 64 × 64, 4 to 4 channels, batch 8", 32.0, 3.63, 3.27),
            ("3 × 3 over 64 × 64, 16 to 16 channels, batch 8", 32.0, 13.2, 10.8),
            ("3 × 3 over 64 × 64, 64 to 64 channels, batch 8", 32.0, 87.8, 83.3),
        )),
        "float64": (2.8, (
            ("3 × 3 over 4 × 4, 4 to 4 channels, batch 8", 2.0, 0.112, 0.108),
            ("3 × 3 over 4 × 4, 16 to 16 channels, batch 8", 2.0, 0.168, 0.158),
            ("3 × 3 over 4 × 4, 64 to 64 channels, batch 8", 2.0, 0.89, 0.96),
            ("3 × 3 over 8 × 8, 4 to 4 channels, batch 8", 4.0, 0.16, 0.156),
            ("3 × 3 over 8 × 8, 16 to 16 channels, batch 8", 4.0, 0.485, 0.432),
            ("3 × 3 over 8 × 8, 64 to 64 channels, batch 8", 4.0, 3.08, 3.2),
            ("3 × 3 over 16 × 16, 4 to 4 channels, batch 8", 8.0, 0.392, 0.387),
            ("3 × 3 over 16 × 16, 16 to 16 channels, batch 8", 8.0, 1.54, 1.35),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 8.0, 12.9, 12.7),
            ("3 × 3 over 32 × 32, 4 to 4 channels, batch 8", 16.0, 1.19, 1.04),
            ("3 × 3 over 32 × 32, 16 to 16 channels, batch 8", 16.0, 6.6, 5.71),
            ("3 × 3 over 32 × 32, 64 to 64 channels, batch 8", 16.0, 51.8, 50.8),
            ("3 × 3 over 64 × 64, 4 to 4 channels, batch 8", 32.0, 5.31, 4.25),
            ("3 × 3 over 64 × 64, 16 to 16 channels, batch 8", 32.0, 28.4, 24.5),
            ("3 × 3 over 64 × 64, 64 to 64 channels, batch 8", 32.0, 199.0, 197.0),
        )),
    },
    "numpy.loops": {
        "float32": (inf, (
            ("4 rows, 32 steps", 4, 0.412, 0.858),
            ("16 rows, 32 steps", 16, 0.841, 1.16),
            ("64 rows, 32 steps", 64, 3.09, 3.21),
            ("256 rows, 32 steps", 256, 13.5, 12.7),
            ("1024 rows, 32 steps", 1024, 57.1, 65.8),
        )),
    },
    "tensorflow.loops": {
        "float32": (130.0, (
            ("4 rows, 32 steps", 4, 1.28, 1.84),
            ("16 rows, 32 steps", 16, 1.94, 2.13),
            ("64 rows, 32 steps", 64, 4.22, 4.63),
            ("256 rows, 32 steps", 256, 15.5, 14.3),
            ("1024 rows, 32 steps", 1024, 56.0, 53.0),
        )),
    },
    "tensorflow.updates": {
        "float32": (1048576, (
            ("65,536 elements", 262144, 0.175, 0.183),
            ("131,072 elements", 524288, 0.279, 0.264),
            ("262,144 elements", 1048576, 0.572, 0.428),
            ("524,288 elements", 2097152, 1.56, 1.23),
            ("1,048,576 elements", 4194304, 3.34, 2.53),
            ("2,097,152 elements", 8388608, 6.91, 4.42),
            ("4,194,304 elements", 16777216, 14.4, 8.45),
        )),
        "float64": (1048576, (
            ("65,536 elements", 262144, 0.298, 0.356),
            ("131,072 elements", 524288, 0.707, 0.737),
            ("262,144 elements", 1048576, 1.88, 1.35),
            ("524,288 elements", 2097152, 3.55, 2.66),
            ("1,048,576 elements", 4194304, 7.51, 5.01),
            ("2,097,152 elements", 8388608, 14.5, 9.05),
            ("4,194,304 elements", 16777216, 32.8, 21.2),
        )),
    },
    "theano.loops": {
        "float32": (inf, (
            ("4 rows, 32 steps", 4, 0.37, 0.743),
            ("16 rows, 32 steps", 16, 0.843, 1.21),
            ("64 rows, 32 steps", 64, 3.14, 3.39),
            ("256 rows, 32 steps", 256, 13.9, 13.1),
            ("1024 rows, 32 steps", 1024, 56.9, 65.3),
        )),
    },
    "theano.updates": {
        "float32": (262144, (
            ("65,536 elements", 65536, 0.0472, 0.0281),
            ("131,072 elements", 131072, 0.106, 0.0709),
            ("262,144 elements", 262144, 0.199, 0.133),
            ("524,288 elements", 524288, 0.384, 0.246),
            ("1,048,576 elements", 1048576, 0.759, 0.48),
            ("2,097,152 elements", 2097152, 2.3, 1.29),
            ("4,194,304 elements", 4194304, 5.78, 3.25),
        )),
        "float64": (262144, (
            ("65,536 elements", 65536, 0.101, 0.07),
            ("131,072 elements", 131072, 0.19, 0.133),
            ("262,144 elements", 262144, 0.356, 0.248),
            ("524,288 elements", 524288, 0.671, 0.471),
            ("1,048,576 elements", 1048576, 2.01, 1.28),
            ("2,097,152 elements", 2097152, 5.16, 3.13),
            ("4,194,304 elements", 4194304, 10.4, 6.63),
        )),
    },
    "torch.biases": {
        "float32": (520000.0, (
            ("64 × 128 × 64", 4096, 0.0323, 0.0321),
            ("128 × 128 × 256", 32768, 0.0839, 0.0913),
            ("512 × 128 × 512", 262144, 0.484, 0.478),
            ("2048 × 128 × 512", 1048576, 2.38, 2.13),
            ("4096 × 128 × 1024", 4194304, 12.3, 12.0),
        )),
        "float64": (12000.0, (
            ("64 × 128 × 64", 4096, 0.0221, 0.0237),
            ("128 × 128 × 256", 32768, 0.12, 0.11),
            ("512 × 128 × 512", 262144, 0.978, 0.969),
            ("2048 × 128 × 512", 1048576, 4.47, 4.51),
            ("4096 × 128 × 1024", 4194304, 35.2, 35.9),
        )),
    },
    "torch.blocks": {
        "float32": (370000.0, (
            ("65,536 elements", 65536, 0.114, 0.153),
            ("131,072 elements", 131072, 0.262, 0.305),
            ("262,144 elements", 262144, 0.559, 0.565),
            ("524,288 elements", 524288, 1.35, 1.16),
            ("1,048,576 elements", 1048576, 3.92, 2.9),
            ("2,097,152 elements", 2097152, 9.1, 5.95),
            ("4,194,304 elements", 4194304, 22.2, 12.1),
        )),
    },
    "torch.loops": {
        "float32": (inf, (
            ("4 rows, 32 steps", 4, 0.628, 1.03),
            ("16 rows, 32 steps", 16, 1.33, 1.51),
            ("64 rows, 32 steps", 64, 3.38, 3.05),
            ("256 rows, 32 steps", 256, 16.6, 15.9),
            ("1024 rows, 32 steps", 1024, 66.6, 80.0),
        )),
    },
    "torch.points": {
        "float32": (0.0, (
            ("1 × 1 over 16 × 16, 8 to 8 channels, batch 8", 64, 0.126, 0.0731),
            ("1 × 1 over 16 × 16, 16 to 64 channels, batch 8", 1024, 0.328, 0.226),
            ("1 × 1 over 8 × 8, 64 to 64 channels, batch 8", 4096, 0.238, 0.159),
            ("1 × 1 over 8 × 8, 256 to 64 channels, batch 8", 16384, 0.7, 0.467),
            ("1 × 1 over 4 × 4, 512 to 512 channels, batch 8", 262144, 3.58, 1.79),
        )),
        "float64": (0.0, (
            ("1 × 1 over 16 × 16, 8 to 8 channels, batch 8", 64, 0.131, 0.0778),
            ("1 × 1 over 16 × 16, 16 to 64 channels, batch 8", 1024, 0.547, 0.422),
            ("1 × 1 over 8 × 8, 64 to 64 channels, batch 8", 4096, 0.371, 0.27),
            ("1 × 1 over 8 × 8, 256 to 64 channels, batch 8", 16384, 1.44, 1.22),
            ("1 × 1 over 4 × 4, 512 to 512 channels, batch 8", 262144, 9.66, 4.29),
        )),
    },
    "torch.products": {
        "float32": (4194304, (
            ("32 × 32 × 32", 32768, 0.00697, 0.0216),
            ("64 × 64 × 64", 262144, 0.0103, 0.0253),
            ("96 × 96 × 96", 884736, 0.0189, 0.0362),
            ("128 × 128 × 128", 2097152, 0.0327, 0.0528),
            ("192 × 192 × 192", 7077888, 0.0977, 0.113),
            ("256 × 256 × 256", 16777216, 0.229, 0.249),
            ("512 × 512 × 512", 134217728, 1.91, 1.88),
        )),
    },
    "torch.windows": {
        "float32": (2.8, (
            ("3 × 3 over 8 × 8, 16 to 16 channels, batch 8", 32.0, 0.491, 0.382),
            ("3 × 3 over 2 × 2, 512 to 512 channels, batch 2", 0.015625, 6.68, 85.7),
            ("3 × 3 over 2 × 2, 512 to 512 channels, batch 8", 0.0625, 8.16, 82.5),
            ("3 × 3 over 4 × 4, 256 to 256 channels, batch 8", 0.5, 5.38, 14.9),
            ("3 × 3 over 8 × 8, 256 to 256 channels, batch 8", 2.0, 16.1, 22.7),
            ("3 × 3 over 8 × 8, 128 to 128 channels, batch 8", 4.0, 6.29, 4.6),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 32.0, 6.39, 3.92),
            ("3 × 3 over 32 × 32, 32 to 32 channels, batch 8", 256.0, 14.8, 4.49),
        )),
        "float64": (11.0, (
            ("3 × 3 over 8 × 8, 16 to 16 channels, batch 8", 32.0, 0.539, 0.348),
            ("3 × 3 over 2 × 2, 512 to 512 channels, batch 2", 0.015625, 11.7, 82.3),
            ("3 × 3 over 2 × 2, 512 to 512 channels, batch 8", 0.0625, 15.3, 109.0),
            ("3 × 3 over 4 × 4, 256 to 256 channels, batch 8", 0.5, 10.2, 28.5),
            ("3 × 3 over 8 × 8, 256 to 256 channels, batch 8", 2.0, 33.2, 51.8),
            ("3 × 3 over 8 × 8, 128 to 128 channels, batch 8", 4.0, 10.9, 11.0),
            ("3 × 3 over 16 × 16, 64 to 64 channels, batch 8", 32.0, 17.2, 14.5),
            ("3 × 3 over 32 × 32, 32 to 32 channels, batch 8", 256.0, 33.3, 22.5),
        )),
    },
}
