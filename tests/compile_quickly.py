"""Settings under which XLA compiles quickly. Tests and the fuzzer compile thousands of programs and
run each once or twice, so XLA need not make them fast. They take effect before JAX is imported.
"""

from __future__ import annotations

SETTINGS = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    # The older emitters compile in a third of the time.
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
}
