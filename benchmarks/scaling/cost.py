"""A model of what a training step costs on a mesh: computing, memory and communication.

A dense network of `layers` square matrices of `width`, trained by Adam. A step computes three
products for each matrix, of two operations per weight and row. Devices that split the batch add up
their gradients, one matrix after the other. Devices that split the weights add up the results of
every second layer, forwards and backwards (the first of two matrices is split by columns, the
second by rows).

Adding up `size` bytes over n devices in a ring takes 2 · (n − 1) messages, each with an n-th of the
bytes. Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms (JPDC 69, 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FLOAT = 4
"""Bytes of a number."""


class Link(NamedTuple):
    """What connects devices."""

    name: str
    latency: float
    """Seconds for a message of no bytes."""
    bandwidth: float
    """Bytes per second, in one direction."""

    def reduce(self, size: float, devices: int) -> float:
        """Seconds to add up `size` bytes over devices, so that all have the sum."""
        messages = 2 * (devices - 1)
        return messages * (self.latency + size / devices / self.bandwidth)


class Device(NamedTuple):
    """What computes."""

    speed: float
    """Operations per second in products."""
    update: float
    """Seconds for a step of the optimizer on one weight."""


class Network(NamedTuple):
    """The network that is trained."""

    width: int
    layers: int

    @property
    def weights(self) -> int:
        """The number of weights."""
        return self.layers * self.width**2

    def work(self, rows: float) -> float:
        """Operations of a step on so many rows."""
        return 6.0 * self.weights * rows

    def memory(self, rows: float, by_batch: int, by_model: int) -> float:
        """Bytes on each device: weights, gradients, two moments, and the results of all layers."""
        kept = rows / by_batch * self.width * self.layers
        return FLOAT * (4 * self.weights / by_model + kept)


def step(
    network: Network, rows: int, by_batch: int, by_model: int, device: Device, link: Link
) -> tuple[float, float]:
    """Seconds of a step on `rows` in all that are spent on computing, and on communication. Nothing
    is computed meanwhile.
    """
    computing = network.work(rows) / (by_batch * by_model) / device.speed
    computing += network.weights / by_model * device.update
    communication = 0.0
    if by_batch > 1:
        gradient = FLOAT * network.width**2 / by_model
        communication += network.layers * link.reduce(gradient, by_batch)
    if by_model > 1:
        sums = network.layers // 2 * 2  # of every second layer, forwards and backwards
        communication += sums * link.reduce(FLOAT * rows / by_batch * network.width, by_model)
    return computing, communication


def last_useful(
    network: Network, rows: int, axis: str, device: Device, link: Link, grow: bool, most: int = 4096
) -> int:
    """The largest number of devices (1, 2, 4, …) that spend half of a step or more on computing.

    `axis` is what is split, `batch` or `model`. With `grow` each device has `rows`, else all of
    them together have.
    """
    useful, n = 1, 2
    while n <= most:
        split = (n, 1) if axis == "batch" else (1, n)
        computing, communication = step(network, rows * n if grow else rows, *split, device, link)
        if computing < communication:
            break
        useful, n = n, 2 * n
    return useful


def measured_device(network: Network, steps: Sequence[tuple[int, float]]) -> Device:
    """The device that explains two steps of a network: pairs of rows and seconds. If the times
    scatter more than the step of the optimizer takes, the products take all of it.
    """
    (few, short), (many, long) = steps
    per_row = (long - short) / (many - few)
    update = short - few * per_row
    if per_row <= 0 or update < 0:
        return Device(network.work(many) / long, 0.0)
    return Device(network.work(1) / per_row, update / network.weights)


def fitted(name: str, measured: Sequence[tuple[float, int, float]]) -> Link:
    """The link that explains measured sums best: triples of bytes, devices and seconds. Each counts
    by its relative error.
    """
    rows = [[2 * (n - 1), 2 * (n - 1) * size / n] for size, n, _ in measured]
    scale = np.array([seconds for *_, seconds in measured])
    (latency, per_byte), *_ = np.linalg.lstsq(
        np.array(rows) / scale[:, None], np.ones(len(rows)), rcond=None
    )
    return Link(name, max(latency, 0.0), 1 / per_byte)


PUBLIC_DEVICES = (Device(1e12, 28 / 1e11), Device(5e13, 28 / 1e12), Device(4e14, 28 / 3e12))
"""A step of Adam reads four numbers for each weight and writes three. Memory gives 0.1, 1 and 3
TB per second here."""

PUBLIC_LINKS = (
    Link("NVLink 4, within a server", 5e-6, 450e9),
    Link("InfiniBand NDR, 400 Gbit/s", 10e-6, 50e9),
    Link("Ethernet, 100 Gbit/s", 30e-6, 12.5e9),
    Link("Ethernet, 10 Gbit/s", 50e-6, 1.25e9),
)
"""Bandwidths as their makers or standards state them, in one direction. The latencies, with what
software adds to each message, are assumptions."""
