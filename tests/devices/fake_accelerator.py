"""PyTorch with an accelerator that computes no values: its device `meta`.

Like a GPU, it refuses operations on tensors of which some are elsewhere. So what runs there as a
whole makes all its tensors on the device and mixes none: `python -m devices.fake_accelerator FILE`
writes to a JSON file what failed.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

torch.accelerator.is_available = lambda: True
torch.accelerator.current_accelerator = lambda: torch.device("meta")
torch.accelerator.device_count = lambda: 1

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from cases import CASES  # noqa: E402
from cases.record import Case  # noqa: E402
from compile.training import adam, cnn, lstm, mlp  # noqa: E402
from conformance.test_cases import flat, gradients_of, lacks  # noqa: E402

VALUES = "item() cannot be called", "Cannot copy out of meta tensor", "has Inf"
"""Errors of functions that look at values, such as branches."""

waits = 0
"""How often a program has waited for the device to tell a number."""


def item(x: Any, known: Any = torch.Tensor.item) -> Any:
    """Any number for a tensor on the device."""
    global waits
    if x.device.type != "meta":
        return known(x)
    waits += 1
    return 0.5 if x.is_floating_point() else 1


torch.Tensor.item = item
torch.Tensor.__bool__ = lambda x: bool(item(x))

EVERY = 4
"""One of so many cases runs."""


def check_case(case: Case) -> None:
    """Values and gradients."""
    dtype = case.dtypes[0]
    K.set_floatx(dtype)
    arrays = case.arrays(dtype)
    inputs = [K.placeholder(shape=a.shape, dtype=a.dtype.name) for a in arrays]
    outputs = flat(case.call(K, *inputs))
    f = K.function(inputs, [*outputs, *gradients_of(case, inputs, outputs)])
    assert f._function.plan.engine.device == "meta:0"
    f(arrays)


def check_training(build: Callable[[], Any], **options: Any) -> None:
    """Two steps of Adam, whose new values stay on the device. No step waits for the one before."""
    K.set_floatx("float32")
    net = build()
    f = K.function(net.inputs, [net.loss], adam(net), **options)
    for _ in range(2):
        before = waits
        f(net.feed)
    assert waits == before  # Constants are asked for in the first step.
    here = f._function.plan.engine
    for w in net.weights:
        assert list(w.values) == [here]
        assert w.values[here].device.type == "meta"


def failure(check: Callable[..., None], *arguments: Any, **options: Any) -> str:
    """What a check raises; nothing if it passes or has looked at values."""
    try:
        with K.device("meta:0"):
            check(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        looks = any(words in str(error) for words in VALUES)
        return "looks at values" if looks else traceback.format_exc()
    return ""


def main(file: str) -> None:
    """Run all checks."""
    with K.engine("torch"):
        engine = engines.current()
        assert K.list_devices() == ["meta:0", "cpu:0"]
        kind: Any = type(engine.on_device("meta:0"))
        kind.fetch = kind.to_numpy = lambda self, value: np.zeros(value.shape)
        fit = [c for c in CASES if not c.slow and not lacks(c, engine)]
        found = {case.id: failure(check_case, case) for case in fit[::EVERY]}
        for build in (mlp, cnn, lstm):
            found[build.__name__] = failure(check_training, build)
        found["mlp in parts"] = failure(check_training, mlp, accumulate=2)
        found["mlp in bfloat16"] = failure(check_training, mlp, precision="bfloat16")
    Path(file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
