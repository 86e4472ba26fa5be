"""Networks that people train, written once over `layers`: in K, by hand in TensorFlow, PyTorch
and JAX, and with Keras 3.

python -m benchmarks.networks --help
"""

from __future__ import annotations

from benchmarks.networks import (
    generative,
    graphs,
    language,
    others,
    records,
    sequences,
    states,
    transformers,
    vision,
)

NETWORKS = {
    **vision.NETWORKS,
    **language.NETWORKS,
    **sequences.NETWORKS,
    **generative.NETWORKS,
    **graphs.NETWORKS,
    **others.NETWORKS,
    **transformers.NETWORKS,
    **states.NETWORKS,
    **records.NETWORKS,
}
"""All networks, by name."""
