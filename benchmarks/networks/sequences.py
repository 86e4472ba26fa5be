"""Networks on series: recurrent and convolutional ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks.problem import Batch, Network, Sizes

# --- a bidirectional LSTM and GRU over padded series ----------------------------------------------


def padded(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Series of different lengths, and which states to drop, scaled by what is kept."""
    shape = s["batch"], s["steps"]
    lengths = rng.integers(s["steps"] // 2, s["steps"] + 1, s["batch"])
    kept = rng.random((4, s["batch"], s["units"])) < 0.8
    found = {
        "x": rng.standard_normal((*shape, s["inputs"]), "float32"),
        "mask": np.arange(s["steps"])[None] < lengths[:, None],
        "labels": rng.integers(0, s["classes"], s["batch"], dtype="int32"),
    }
    return found | {f"noise{i}": (k / 0.8).astype("float32") for i, k in enumerate(kept)}


def bidirectional(L: Any, batch: Batch, s: Sizes) -> Any:
    """Both directions of an LSTM, then both of a GRU, whose last states are classified."""
    x, mask, units = batch["x"], batch["mask"], s["units"]
    there, _ = L.lstm(x, units, mask=mask, noise=batch["noise0"])
    back, _ = L.lstm(x, units, mask=mask, noise=batch["noise1"], reverse=True)
    h = L.concat([there, back])
    _, (there,) = L.gru(h, units, mask=mask, noise=batch["noise2"])
    _, (back,) = L.gru(h, units, mask=mask, noise=batch["noise3"], reverse=True)
    return L.dense(L.concat([there, back]), s["classes"])


BIDIRECTIONAL = Network(
    "bidirectional LSTM and GRU with masks and recurrent dropout",
    bidirectional,
    padded,
    {"batch": 32, "steps": 40, "inputs": 32, "units": 64, "classes": 10},
    {"batch": 3, "steps": 5, "inputs": 3, "units": 4, "classes": 3},
    reads=("x", "mask", "noise0", "noise1", "noise2", "noise3"),
    recurrent=True,
)

# --- ConvLSTM, https://arxiv.org/abs/1506.04214 ---------------------------------------------------


def films(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Series of images, and the image to be foretold."""
    shape = s["batch"], s["steps"] + 1, s["side"], s["side"], 1
    x = rng.random(shape, dtype="float32")
    return {"x": x[:, :-1].copy(), "next": x[:, -1].copy()}


def conv_lstm(L: Any, batch: Batch, s: Sizes) -> Any:
    """The next image."""
    return L.channels_last(L.conv(L.conv_lstm(batch["x"], s["filters"], 3), 1, 1))


def conv_lstm_loss(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """The mean squared error."""
    return {"": L.mean(L.square(conv_lstm(L, batch, s) - batch["next"]))}


CONV_LSTM = Network(
    "ConvLSTM",
    conv_lstm,
    films,
    {"batch": 4, "steps": 8, "side": 32, "filters": 16},
    {"batch": 2, "steps": 3, "side": 5, "filters": 2},
    loss=conv_lstm_loss,
    recurrent=True,
)

# --- WaveNet, https://arxiv.org/abs/1609.03499 ----------------------------------------------------


def waves(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Samples, and the levels of the following ones."""
    x = rng.standard_normal((s["batch"], s["steps"], 1), "float32")
    labels = rng.integers(0, s["levels"], (s["batch"], s["steps"]), dtype="int32")
    return {"x": x, "labels": labels}


def wavenet(L: Any, batch: Batch, s: Sizes) -> Any:
    """Causal convolutions whose places are ever farther apart."""
    x = L.conv(L.image(batch["x"]), s["filters"], 2)
    total: Any = 0.0
    last = len(s["dilations"]) - 1
    for i, dilation in enumerate(s["dilations"]):
        filtered = L.tanh(L.conv(x, s["filters"], 2, dilation=dilation))
        gate = L.sigmoid(L.conv(x, s["filters"], 2, dilation=dilation))
        h = filtered * gate
        total = total + L.conv(h, s["skipped"], 1)
        if i < last:
            x = x + L.conv(h, s["filters"], 1)
    y = L.conv(L.relu(total), s["skipped"], 1)
    return L.channels_last(L.conv(L.relu(y), s["levels"], 1))


WAVENET = Network(
    "WaveNet",
    wavenet,
    waves,
    {
        "batch": 4, "steps": 512, "filters": 32, "skipped": 64, "levels": 64,
        "dilations": (1, 2, 4, 8, 16, 32, 64, 128) * 2,
    },
    {"batch": 2, "steps": 12, "filters": 3, "skipped": 4, "levels": 5, "dilations": (1, 2, 4)},
    keras3=True,
)  # fmt: skip

# --- a recognizer of written lines, https://arxiv.org/abs/1507.05717 ------------------------------


def lines(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Images of lines and what is written there."""
    batch, letters = s["batch"], s["letters"]
    steps = s["length"] // 4
    found = {
        "x": rng.random((batch, s["height"], s["length"], 1), dtype="float32"),
        "labels": rng.integers(0, s["classes"], (batch, letters), dtype="int32"),
        "steps": rng.integers(steps - 2, steps + 1, (batch, 1), dtype="int32"),
        "lengths": rng.integers(1, letters + 1, (batch, 1), dtype="int32"),
    }
    # Neighbours differ, so that so many steps are enough.
    found["labels"] = np.cumsum(found["labels"] % (s["classes"] - 1) + 1, 1, dtype="int32")
    found["labels"] %= s["classes"]
    return found


def recognizer(L: Any, batch: Batch, s: Sizes) -> Any:
    """Convolutions see, an LSTM reads in both directions."""
    width = s["width"]
    x = L.relu(L.batch_norm(L.conv(L.image(batch["x"]), width, 3, bias=False)))
    x = L.max_pool(x, 2, 2)
    x = L.relu(L.batch_norm(L.conv(x, 2 * width, 3, bias=False)))
    x = L.columns(L.max_pool(x, 2, 2))
    there, _ = L.lstm(x, s["units"])
    back, _ = L.lstm(x, s["units"], reverse=True)
    return L.dense(L.concat([there, back]), s["classes"] + 1)


def recognizer_loss(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """Connectionist temporal classification."""
    scores = recognizer(L, batch, s)
    lengths = batch["steps"], batch["lengths"]
    return {"": L.ctc(scores, batch["labels"], *lengths)}


RECOGNIZER = Network(
    "CTC recognizer",
    recognizer,
    lines,
    {
        "batch": 8, "height": 16, "length": 96, "letters": 8, "classes": 26,
        "width": 16, "units": 64,
    },
    {
        "batch": 2, "height": 4, "length": 24, "letters": 2, "classes": 4,
        "width": 2, "units": 3,
    },
    loss=recognizer_loss,
    recurrent=True,
)  # fmt: skip

NETWORKS = {
    "bidirectional": BIDIRECTIONAL,
    "conv-lstm": CONV_LSTM,
    "wavenet": WAVENET,
    "ctc": RECOGNIZER,
}
