"""Networks that draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks.problem import Batch, Network, Sizes


def _data(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    real = rng.uniform(-1, 1, (s["batch"], s["side"], s["side"], 3)).astype("float32")
    code = rng.standard_normal((s["batch"], s["code"]), "float32")
    return {"real": real, "x": code, "mix": rng.random((s["batch"], 1, 1, 1), dtype="float32")}


# --- DCGAN, https://arxiv.org/abs/1511.06434 ------------------------------------------------------


def generator(L: Any, batch: Batch, s: Sizes) -> Any:
    """From codes to images."""
    width, side = s["width"], s["side"] // 2 ** s["levels"]
    with L.scope("generator"):
        channels = width * 2 ** (s["levels"] - 1)
        x = L.as_image(L.dense(batch["x"], side * side * channels), side, side, channels)
        x = L.relu(L.batch_norm(x))
        for level in reversed(range(s["levels"] - 1)):
            x = L.relu(L.batch_norm(L.conv_transpose(x, width * 2**level, 4, 2)))
        return L.tanh(L.conv_transpose(x, 3, 4, 2))


def drawn(L: Any, batch: Batch, s: Sizes) -> Any:
    """Images."""
    return L.channels_last(generator(L, batch, s))


def _judge(L: Any, x: Any, s: Sizes, *, norm: bool) -> Any:
    """The scores of images. A critic's must not see the other samples of a batch."""
    with L.scope("judge"):
        for level in range(s["levels"]):
            x = L.conv(x, s["width"] * 2**level, 3, 2)
            x = L.leaky_relu(L.batch_norm(x) if norm and level else x)
        return L.dense(L.flatten(x), 1)


def dcgan_losses(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """Judge and generator are trained at once, against each other."""
    made = generator(L, batch, s)
    real = _judge(L, L.image(batch["real"]), s, norm=True)
    fake = _judge(L, L.stop(made), s, norm=True)
    fooled = _judge(L, made, s, norm=True)
    return {
        "judge": L.binary(real, 1.0) + L.binary(fake, 0.0),
        "generator": L.binary(fooled, 1.0),
    }


DCGAN = Network(
    "DCGAN",
    drawn,
    _data,
    {"batch": 16, "side": 32, "code": 64, "width": 32, "levels": 3},
    {"batch": 3, "side": 8, "code": 4, "width": 2, "levels": 2},
    loss=dcgan_losses,
    tolerance=0.02,
)

# --- WGAN-GP, https://arxiv.org/abs/1704.00028 ----------------------------------------------------


def wgan_losses(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """The penalty is on a gradient, so training takes second derivatives."""
    made = generator(L, batch, s)
    real, fake = L.image(batch["real"]), L.stop(made)

    def critic(x: Any) -> Any:
        return _judge(L, x, s, norm=False)

    between = batch["mix"] * real + (1.0 - batch["mix"]) * fake
    slope = L.gradient(critic, between)
    norm = L.sqrt(L.row_sum(L.square(slope)) + 1e-12)
    penalty = L.mean(L.square(norm - 1.0))
    return {
        "judge": L.mean(critic(fake)) - L.mean(critic(real)) + 10.0 * penalty,
        "generator": -L.mean(critic(made)),
    }


WGAN_GP = Network(
    "WGAN-GP",
    drawn,
    _data,
    {"batch": 16, "side": 32, "code": 64, "width": 32, "levels": 3},
    {"batch": 3, "side": 8, "code": 4, "width": 2, "levels": 2},
    loss=wgan_losses,
    tolerance=0.02,
)

# --- variational autoencoder, https://arxiv.org/abs/1312.6114 -------------------------------------


def digits(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Pixels, and the noise of the codes."""
    pixels = (rng.random((s["batch"], s["pixels"])) < 0.2).astype("float32")
    return {"x": pixels, "noise": rng.standard_normal((s["batch"], s["code"]), "float32")}


def _encoded(L: Any, x: Any, s: Sizes) -> tuple[Any, Any]:
    with L.scope("encoder"):
        h = L.relu(L.dense(x, s["units"]))
        return L.dense(h, s["code"]), L.dense(h, s["code"])


def _decoded(L: Any, z: Any, s: Sizes) -> Any:
    with L.scope("decoder"):
        return L.dense(L.relu(L.dense(z, s["units"])), s["pixels"])


def vae(L: Any, batch: Batch, s: Sizes) -> Any:
    """What is left of images that were coded."""
    return L.sigmoid(_decoded(L, _encoded(L, batch["x"], s)[0], s))


def vae_loss(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """How much is lost, and how far the codes are from normal numbers."""
    mean, log_var = _encoded(L, batch["x"], s)
    scores = _decoded(L, mean + L.exp(0.5 * log_var) * batch["noise"], s)
    apart = L.row_sum(1.0 + log_var - L.square(mean) - L.exp(log_var))
    return {"": L.binary(scores, batch["x"]) * float(s["pixels"]) - 0.5 * L.mean(apart)}


VAE = Network(
    "variational autoencoder",
    vae,
    digits,
    {"batch": 128, "pixels": 784, "units": 400, "code": 20},
    {"batch": 3, "pixels": 9, "units": 5, "code": 2},
    loss=vae_loss,
)

NETWORKS = {"dcgan": DCGAN, "wgan-gp": WGAN_GP, "vae": VAE}
