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

# --- the U-Net of a diffusion model, https://arxiv.org/abs/2006.11239 -----------------------------


def noisy(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Images with noise, how far along they are, and the noise."""
    shape = s["batch"], s["side"], s["side"], 3
    return {
        "x": rng.standard_normal(shape, "float32"),
        "time": rng.integers(0, 1000, (s["batch"], 1)).astype("float32"),
        "noise": rng.standard_normal(shape, "float32"),
    }


def _block(L: Any, x: Any, time: Any, before: int, filters: int, s: Sizes) -> Any:
    """Two convolutions, between which the time is added."""
    h = L.conv(L.silu(L.group_norm(x, s["groups"])), filters, 3)
    h = L.shifted(h, L.dense(time, filters))
    h = L.conv(L.silu(L.group_norm(h, s["groups"])), filters, 3)
    return h + (x if before == filters else L.conv(x, filters, 1))


def _attended(L: Any, x: Any, side: int, size: int, s: Sizes) -> Any:
    """Attention between all places of an image."""
    h = L.reshape(L.channels_last(L.group_norm(x, s["groups"])), side * side, size)
    q, k, v = (L.dense(h, size) for _ in range(3))
    h = L.dense(L.attention(q, k, v, s["heads"]), size)
    return x + L.as_image(L.reshape(h, side * side * size), side, side, size)


def diffusion(L: Any, batch: Batch, s: Sizes) -> Any:
    """The noise in images."""
    width, half = s["width"], s["width"] // 2
    rates = L.constant(
        "rates", lambda: (10_000.0 ** (-np.arange(half) / half)).astype("float32")[None]
    )
    angles = batch["time"] * rates
    time = L.dense(L.concat([L.sin(angles), L.cos(angles)]), 4 * width)
    time = L.silu(L.dense(L.silu(time), 4 * width))
    x = L.conv(L.image(batch["x"]), width, 3)
    kept, size, side = [(x, width)], width, s["side"]
    for level, factor in enumerate(s["factors"]):
        if level:
            x, side = L.conv(x, size, 3, 2), side // 2
        x, size = _block(L, x, time, size, width * factor, s), width * factor
        kept.append((x, size))
    x = _block(L, x, time, size, size, s)
    x = _block(L, _attended(L, x, side, size, s), time, size, size, s)
    for level, factor in reversed([*enumerate(s["factors"])]):
        skipped, more = kept.pop()
        x = _block(L, L.join([x, skipped]), time, size + more, width * factor, s)
        size = width * factor
        if level:
            x = L.conv(L.doubled(x), size, 3)
    return L.channels_last(L.conv(L.silu(L.group_norm(x, s["groups"])), 3, 3))


def diffusion_loss(L: Any, batch: Batch, s: Sizes) -> dict[str, Any]:
    """The mean squared error."""
    return {"": L.mean(L.square(diffusion(L, batch, s) - batch["noise"]))}


DIFFUSION = Network(
    "U-Net of a diffusion model",
    diffusion,
    noisy,
    {
        "batch": 4, "side": 32, "width": 32, "factors": (1, 2, 4), "groups": 8, "heads": 4,
    },
    {"batch": 2, "side": 4, "width": 4, "factors": (1, 2), "groups": 2, "heads": 2},
    loss=diffusion_loss,
    reads=("x", "time"),
)  # fmt: skip

NETWORKS = {"dcgan": DCGAN, "wgan-gp": WGAN_GP, "vae": VAE, "diffusion": DIFFUSION}
