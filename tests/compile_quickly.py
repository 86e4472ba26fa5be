"""Settings under which engines compile quickly. Tests and the fuzzer compile thousands of programs
and run each once or twice, so XLA need not make them fast. Its settings take effect before JAX is
imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SETTINGS = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    # The older emitters compile in a third of the time.
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
}


@contextmanager
def graphs_as_they_are() -> Iterator[None]:
    """TensorFlow, if it is imported, runs graphs without Grappler, whose passes take three tenths
    of a small program's first run. Whole programs and the fuzzer's run with it.
    """
    tf = sys.modules.get("tensorflow")
    if tf is None:
        yield
        return
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        off = before.get("disable_meta_optimizer", False)
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": off})
