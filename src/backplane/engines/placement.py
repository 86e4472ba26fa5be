"""Engines on a device that the user chose, for libraries that have a context manager for that."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from backplane.engines.base import Engine
from backplane.engines.programs import Function, Program
from backplane.engines.table import Value


class OnDevice(Engine):
    """Mixin in front of an engine's class: values are made, and programs run, inside of `here`."""

    takes_arrays: ClassVar[bool] = False
    device: str

    def __init__(self, name: str) -> None:
        super().__init__()
        self.device, self.native_device = name, self.named(name)

    def named(self, name: str) -> Any:
        """The device of that name, as the library has it."""
        return name

    def here(self) -> AbstractContextManager[Any]:
        """The library's own context manager: what is made inside is on the device."""
        raise NotImplementedError

    def moved(self, value: Value) -> Value:
        """A value of the library on the device."""
        raise NotImplementedError

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """A copy on the device."""
        with self.here():
            return super().from_numpy(array, dtype)

    feed = Engine.feed

    def detached(self, value: Value) -> Value:
        """The value on the device."""
        return self.moved(super().detached(value))

    def compile(self, program: Program) -> Function:
        """The program, which runs on the device."""
        with self.here():
            return self._run_here(super().compile(program))

    def eager(self, program: Program) -> Function:
        """The program, which runs on the device."""
        return self._run_here(super().eager(program))

    def _run_here(self, run: Function) -> Function:
        here = self.here

        @wraps(run)  # with what compiled programs are marked with
        def placed(*inputs: Value) -> tuple[Value, ...]:
            with here():
                return run(*inputs)

        return placed
