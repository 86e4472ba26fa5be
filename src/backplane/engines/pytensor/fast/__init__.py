"""Modules that serve only speed on PyTensor."""

from backplane.engines.fast import Piece

PIECES = (
    Piece("pytensor.linker", "run a graph as straight-line Python",
          "no compilation, which takes a second to minutes",
          "unless PyTensor's flags choose a mode", "option compile=True"),
    Piece("pytensor.calls", "call the operations of PyTensor as functions on arrays",
          "their `perform` methods take several times as long on small arrays",
          "programs of `linker`", "option compile=True"),
    Piece("pytensor.updates", "compute the step of an optimizer by one loop of Numba",
          "Adam takes 1/3.5 of the time of the calls of NumPy",
          "from the second step on, from the limit of the choice on", "choice theano.updates"),
)  # fmt: skip
