"""Portable random words on an accelerator, without a word from the host in between."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch

from backplane.engines.arrays.random import ROTATIONS
from backplane.engines.table import Value

_CUDA = """
template <typename T> void threefry(T x, T y, T key, T next, T& first, T& second) {
  unsigned int a = x, b = y, keys[3] = {(unsigned int)key, (unsigned int)next, 0};
  const int turns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  keys[2] = keys[0] ^ keys[1] ^ 0x1BD11BDAu;
  a += keys[0];
  b += keys[1];
  for (int group = 0; group < 5; ++group) {
    for (int i = 0; i < 4; ++i) {
      const int turn = turns[group % 2 * 4 + i];
      a += b;
      b = (b << turn | b >> (32 - turn)) ^ a;
    }
    a += keys[(group + 1) % 3];
    b += keys[(group + 2) % 3] + group + 1;
  }
  first = a;
  second = b;
}
"""
"""Threefry-2x32 with 20 rounds (`ops.random.threefry`) as one kernel: its 180 operations one by one
would each read and write all words.
"""

_WORD = 0xFFFFFFFF


def bits(key: Value, sizes: tuple[int, ...], device: torch.device) -> Value:
    """Words of uint32 of `ops.random.random_bits`. The key may be on another device."""
    count = math.prod(sizes)
    low, high, counter, fold = key.to(torch.int64).to(device).unbind()
    encrypt = _kernel() if device.type == "cuda" and torch.version.cuda else _encrypted
    subkey = encrypt(counter, fold, low, high)
    blocks = torch.arange((count + 1) // 2, device=device)
    words = torch.cat(encrypt(blocks, torch.zeros_like(blocks), *subkey))
    return words[:count].to(torch.uint32).reshape(sizes)


@cache
def _kernel() -> Any:
    return torch.cuda.jiterator._create_multi_output_jit_fn(_CUDA, 2)


def _encrypted(x: Value, y: Value, key: Value, following: Value) -> tuple[Value, Value]:
    """The same, operation by operation, in the lower halves of int64."""
    keys = key, following, key ^ following ^ 0x1BD11BDA
    x, y = x + keys[0] & _WORD, y + keys[1] & _WORD
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x = x + y & _WORD
            y = (y << turn & _WORD | y >> 32 - turn) ^ x
        x = x + keys[(group + 1) % 3] & _WORD
        y = y + keys[(group + 2) % 3] + group + 1 & _WORD
    return x, y
