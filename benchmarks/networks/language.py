"""Networks on words and letters."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks.problem import Batch, Network, Sizes


def _positions(s: Sizes) -> np.ndarray:
    return np.arange(s["steps"], dtype="int32")[None].repeat(s["batch"], 0)


# --- GPT, as GPT-2: norms before the blocks, the table of the words read once more at the end -----


def text(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Random words; each predicts the next one."""
    words = rng.integers(0, s["words"], (s["batch"], s["steps"] + 1), dtype="int32")
    return {"x": words[:, :-1].copy(), "places": _positions(s), "labels": words[:, 1:].copy()}


def gpt(L: Any, batch: Batch, s: Sizes) -> Any:
    """A decoder."""
    words, places = L.table(s["words"], s["width"]), L.table(s["steps"], s["width"])
    x = L.lookup(words, batch["x"]) + L.lookup(places, batch["places"])
    for _ in range(s["layers"]):
        h = L.layer_norm(x)
        q, k, v = L.dense(h, s["width"]), L.dense(h, s["width"]), L.dense(h, s["width"])
        x = x + L.dense(L.attention(q, k, v, s["heads"], causal=True), s["width"])
        h = L.gelu(L.dense(L.layer_norm(x), 4 * s["width"]))
        x = x + L.dense(h, s["width"])
    return L.tied(L.layer_norm(x), words)


_TINY_GPT = {"batch": 2, "steps": 5, "words": 11, "width": 8, "layers": 2, "heads": 2}

GPT = Network(
    "GPT, 4 layers of width 128",
    gpt,
    text,
    {"batch": 16, "steps": 64, "words": 256, "width": 128, "layers": 4, "heads": 4},
    _TINY_GPT,
    reads=("x", "places"),
    keras3=True,
)
GPT_768 = Network(
    "GPT, 12 layers of width 768",
    gpt,
    text,
    {"batch": 2, "steps": 32, "words": 8192, "width": 768, "layers": 12, "heads": 12},
    {**_TINY_GPT, "layers": 3},
    reads=("x", "places"),
    keras3=True,
)

# --- BERT, https://arxiv.org/abs/1810.04805 -------------------------------------------------------


def masked_text(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Sentences of different lengths, of whose words some are to be guessed."""
    shape = s["batch"], s["steps"]
    lengths = rng.integers(s["steps"] // 2, s["steps"] + 1, s["batch"])
    present = np.arange(s["steps"])[None] < lengths[:, None]
    hidden = (rng.random(shape) < 0.25) & present
    hidden[:, 0] = True
    words = rng.integers(1, s["words"], shape, dtype="int32")
    return {
        "x": np.where(hidden | ~present, 0, words).astype("int32"),
        "places": _positions(s),
        "mask": present.astype("float32"),
        "labels": words,
        "hidden": hidden.astype("float32"),
    }


def bert(L: Any, batch: Batch, s: Sizes) -> Any:
    """An encoder, norms after the blocks."""
    words, places = L.table(s["words"], s["width"]), L.table(s["steps"], s["width"])
    x = L.layer_norm(L.lookup(words, batch["x"]) + L.lookup(places, batch["places"]))
    for _ in range(s["layers"]):
        q, k, v = L.dense(x, s["width"]), L.dense(x, s["width"]), L.dense(x, s["width"])
        h = L.attention(q, k, v, s["heads"], mask=batch["mask"])
        x = L.layer_norm(x + L.dense(h, s["width"]))
        h = L.gelu(L.dense(x, 4 * s["width"]), exact=True)
        x = L.layer_norm(x + L.dense(h, s["width"]))
    h = L.layer_norm(L.gelu(L.dense(x, s["width"]), exact=True))
    return L.tied(h, words)


def masked_loss(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """Over the words that were hidden."""
    scores = bert(L, batch, s)
    return {"": L.cross_entropy_where(scores, batch["labels"], batch["hidden"])}


BERT = Network(
    "BERT with masks, 4 layers of width 256",
    bert,
    masked_text,
    {"batch": 8, "steps": 64, "words": 1024, "width": 256, "layers": 4, "heads": 4},
    {"batch": 3, "steps": 6, "words": 11, "width": 8, "layers": 2, "heads": 2},
    loss=masked_loss,
    reads=("x", "places", "mask"),
)

# --- sequence to sequence with Luong's attention, https://arxiv.org/abs/1508.04025 ----------------


def pairs(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """A sentence, and another one that is to be written."""
    source = rng.integers(0, s["words"], (s["batch"], s["steps"]), dtype="int32")
    target = rng.integers(0, s["words"], (s["batch"], s["steps"] + 1), dtype="int32")
    return {"x": source, "written": target[:, :-1].copy(), "labels": target[:, 1:].copy()}


def seq2seq(L: Any, batch: Batch, s: Sizes) -> Any:
    """An LSTM reads, another one writes from its states and looks back."""
    source = L.lookup(L.table(s["words"], s["width"]), batch["x"])
    target = L.lookup(L.table(s["words"], s["width"]), batch["written"])
    read, states = L.lstm(source, s["width"])
    written, _ = L.lstm(target, s["width"], start=states)
    seen = L.dot_attention(written, read)
    return L.dense(L.tanh(L.dense(L.concat([written, seen]), s["width"])), s["words"])


SEQ2SEQ = Network(
    "sequence to sequence with attention",
    seq2seq,
    pairs,
    {"batch": 32, "steps": 24, "words": 512, "width": 128},
    {"batch": 3, "steps": 4, "words": 7, "width": 5},
    reads=("x", "written"),
    recurrent=True,
)

NETWORKS = {"gpt": GPT, "gpt-768": GPT_768, "bert": BERT, "seq2seq": SEQ2SEQ}
