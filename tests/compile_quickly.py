"""Settings under which XLA compiles quickly. Tests and the fuzzer compile thousands of programs and
run each once or twice, so XLA need not make them fast. They take effect before JAX is imported.
"""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec

SETTINGS = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}

# The older emitters compile in a third of the time. XLA ends the process where it does not know a
# flag, and knows this one no more from jaxlib 0.11 on.
if find_spec("jaxlib") and tuple(map(int, metadata.version("jaxlib").split(".")[:2])) < (0, 11):
    SETTINGS["XLA_FLAGS"] = (
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )
