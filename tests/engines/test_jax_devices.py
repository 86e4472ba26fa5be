"""JAX on one of several devices: those that it makes of one processor."""

import pytest

from devices.checks import CHECKS
from devices.processes import found_on


@pytest.mark.parametrize("name", CHECKS)
def test_on_the_second_of_three_devices(name, tmp_path_factory):
    env = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "3"}
    found = found_on("jax", "", tmp_path_factory, **env)
    assert not found[name], found[name]
