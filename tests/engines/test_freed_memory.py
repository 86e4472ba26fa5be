"""The system's allocator keeps what programs free."""

import os
import platform
import sys

import pytest

import waiting

PAGES = """
import resource
import numpy as np
from backplane import engines
engines.get("numpy")
def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(1 << 20, "uint8") for _ in range(20)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(*[pages() for _ in range(4)])
"""
"""Prints how many pages came anew in each of four runs that make 20 MB, and free them."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_what_a_program_frees_serves_its_next_run() -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    done = waiting.run([sys.executable, "-c", PAGES], env=env, check=True)
    first, *others = map(int, done.stdout.split()[-4:])
    assert first > 4000  # 20 MB are 5,120 pages of 4 KB.
    assert max(others) < 100
