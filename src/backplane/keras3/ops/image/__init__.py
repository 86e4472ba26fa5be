"""`keras.src.backend.image`: colors, resizing, warping and filters of images."""

from backplane.keras3.ops.image.colors import hsv_to_rgb, rgb_to_grayscale, rgb_to_hsv
from backplane.keras3.ops.image.elastic import elastic_transform
from backplane.keras3.ops.image.filters import gaussian_blur, sobel_edges
from backplane.keras3.ops.image.perspective import compute_homography_matrix, perspective_transform
from backplane.keras3.ops.image.resizing import resize, scale_and_translate
from backplane.keras3.ops.image.warping import affine_transform, map_coordinates

__all__ = [
    "affine_transform",
    "compute_homography_matrix",
    "elastic_transform",
    "gaussian_blur",
    "hsv_to_rgb",
    "map_coordinates",
    "perspective_transform",
    "resize",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "scale_and_translate",
    "sobel_edges",
]  # fmt: skip
