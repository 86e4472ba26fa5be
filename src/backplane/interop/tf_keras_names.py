"""The K of tf.keras, as `tensorflow.keras.backend` serves it.

It is the `keras.backend` in force, with the few functions that tf.keras 2.0 to 2.15 defined
otherwise than the documents of the Keras backend API.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from backplane import backend as K
from backplane.backend.types import DataFormat, Sizes, TensorLike
from backplane.core.graph import Tensor


def ctc_decode(
    y_pred: TensorLike,
    input_length: TensorLike,
    greedy: bool = True,
    beam_width: int = 100,
    top_paths: int = 1,
) -> tuple[list[Tensor], Tensor]:
    """Read label sequences off the predictions of a CTC network, padded to the time steps; see
    `K.ctc_decode` for the arguments.
    """
    return K.ctc_decode(y_pred, input_length, greedy, beam_width, top_paths, pad_to_steps=True)


def local_conv1d(
    inputs: Any,
    kernel: Any,
    kernel_size: Sizes,
    strides: Sizes,
    data_format: DataFormat | None = None,
) -> Any:
    """Convolution over time steps, with a different kernel for each step of the result. With
    channels first, `inputs` and the result are (batch, channels, steps); see `K.local_conv`.
    """
    places: Any = (K.int_shape(kernel)[0],)
    return K.local_conv(inputs, kernel, kernel_size, strides, places, data_format)


def print_tensor(x: TensorLike, message: str = "", summarize: int = 3) -> Any:
    """Print a tensor when it is computed, with three elements at each end of an axis unless
    `summarize` asks for another number; see `K.print_tensor`.
    """
    return K.print_tensor(x, message, None if summarize == -1 else summarize)


OTHERWISE = {f.__name__: f for f in (ctc_decode, local_conv1d, print_tensor)}
"""The functions that tf.keras defined otherwise."""


class Backend(ModuleType):
    """`tensorflow.keras.backend`.

    Args:
        name: Name of the module.
        base: Name of the module whose functions it has: the `keras.backend` in force.
    """

    def __init__(self, name: str = "tensorflow.keras.backend", base: str = "keras.backend") -> None:
        super().__init__(name, __doc__)
        self._base = base
        self.__path__: list[str] = []
        vars(self).update(OTHERWISE)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return list(K.__all__)
        if name.startswith("__"):
            raise AttributeError(name)
        base = import_module(vars(self)["_base"])
        # An installed Keras 2 has no other functions than its own.
        return getattr(base if hasattr(base, name) else K, name)

    def __dir__(self) -> list[str]:
        return sorted({*K.__all__, *vars(self)})
