"""`K.device` where an engine has one device. Several are for `devices.checks`."""

from __future__ import annotations

from typing import Any

import pytest

from backplane import backend as K
from documents.covering import covers


@covers("device", "list_devices", spec=True)
def test_the_only_device_changes_nothing(engine: Any) -> None:
    names = K.list_devices()
    assert names
    x = K.placeholder((2,))
    with K.device(names[0]):
        v = K.variable([1.0, 2.0])
        f = K.function([x], [x * v], [(v, v + x)])
    assert f([[1.0, 1.0]])[0].tolist() == [1.0, 2.0]
    assert K.get_value(v).tolist() == [2.0, 3.0]
    if len(names) == 1:
        assert f._function.plan.engine is engine


def test_wrong_names() -> None:
    with pytest.raises(ValueError, match=r"K\.device: .* no device 'gpu:0'; it has cpu:0"):
        K.device("gpu").__enter__()
    with pytest.raises(TypeError, match=r"K\.device: name must be a string such as 'gpu:0', got 0"):
        K.device(0).__enter__()
