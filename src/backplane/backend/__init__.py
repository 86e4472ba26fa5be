"""The K namespace: every function of the Keras backend API.

Each chapter (`activation`, `linear`, …) names its functions in `__all__`, and this module puts them
together. Type checkers and editors read `__init__.pyi`, which `make generate` writes.
"""

import sys as _sys
from types import FunctionType as _FunctionType

from backplane import config as _config
from backplane import engines as _engines
from backplane.backend import (
    _external,
    _operators,  # noqa: F401 - the operators of tensors
    _protocols,  # noqa: F401 - functions of other libraries on them
    activation,
    arithmetic,
    checkpoints,
    common,
    comparison,
    control,
    convolution,
    creation,
    ctc,
    debugging,
    devices,
    focal_loss,
    functions,
    graph,
    inspection,
    keras1,
    linear,
    loss,
    normalization,
    ordering,
    padding,
    phase,
    pooling,
    random,
    random_generator,
    recurrence,
    reduction,
    resizing,
    scaling,
    segments,
    selection,
    session,
    shaping,
    sharding,
    sparse,
    state,
)
from backplane.backend._call import unconverted as _unconverted
from backplane.backend.tensorflow_backend import leaked as __getattr__  # noqa: F401

_CHAPTERS = (
    activation, arithmetic, checkpoints, common, comparison, control, convolution, creation,
    ctc, debugging, devices, focal_loss, functions, graph, inspection, keras1, linear, loss,
    normalization, ordering, padding, phase, pooling, random, random_generator, recurrence,
    reduction, resizing, scaling, segments, selection, session, shaping, sharding, sparse, state,
)  # fmt: skip

_FUNCTIONS = {name: getattr(chapter, name) for chapter in _CHAPTERS for name in chapter.__all__}
globals().update(_FUNCTIONS)
for _function in _FUNCTIONS.values():
    if isinstance(_function, _FunctionType):
        _unconverted(_function)
__all__ = sorted(_FUNCTIONS)

_config.load()
_choice = _engines.configured()
if _engines.is_external(_choice):
    _external.take(_choice, globals())
print(_choice.announcement, file=_sys.stderr)
