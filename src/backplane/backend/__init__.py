"""The K namespace: every function of the Keras backend API, by chapter. No logic here."""

import importlib as _importlib

from backplane import config as _config
from backplane import ops as _ops
for _m in ("activation","arithmetic","common","control","convolution","creation","graph","inspection","linear","loss","normalization","padding","phase","pooling","random","reduction","resizing","shaping","state","recurrence","ctc","session"):
    try:
        _mod = _importlib.import_module(f"backplane.backend.{_m}")
    except ModuleNotFoundError as _e:
        if _m not in str(_e): raise
        continue
    for _k, _v in list(vars(_mod).items()):
        if not _k.startswith("_") and getattr(_v, "__module__", "") == _mod.__name__:
            globals()[_k] = _v
from backplane.config import epsilon, set_epsilon, floatx, set_floatx, cast_to_floatx, image_data_format, set_image_data_format
