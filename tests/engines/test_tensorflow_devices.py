"""TensorFlow on one of several devices: logical ones of one processor."""

import pytest

from devices.checks import CHECKS
from devices.processes import found_on

START = """
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
"""


@pytest.mark.parametrize("name", CHECKS)
def test_on_the_second_of_three_devices(name, tmp_path_factory):
    found = found_on("tensorflow", START, tmp_path_factory)
    assert not found[name], found[name]
