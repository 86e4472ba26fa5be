"""The parts of programs in the documentation: each runs in the program that the text around it
describes. Pages with whole programs have tests of their own.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import waiting
from backplane.engines import installed
from documents.test_pages import LEADING, PAGES

DOCS = Path(__file__).parents[2] / "docs"

START = "import numpy as np\nfrom backplane import backend as K\n"
MODEL = "x, w = K.placeholder((None, 3)), K.variable(np.ones((3, 3)))\ny = K.dot(x, w)\n"

CONTEXTS = {
    ("jax.md", 1): ("", "import jax.numpy as jnp\nassert float(jnp.ones(3).sum()) == 3"),
    ("mlx.md", 1): ("", ""),
    ("performance.md", 1): (
        "",
        "assert f([np.ones((2, 5, 8)), np.ones((2, 5))])[0].shape == (2, 4)",
    ),
    ("torch.md", 1): (
        START + MODEL,
        "from backplane import engines\nassert f.name and engines.current().name == 'torch'",
    ),
    ("scaling.md", 4): (
        START
        + MODEL
        + "loss = K.mean(K.square(y))\n"
        + "updates = [K.update_sub(w, 0.1 * K.gradients(loss, [w])[0])]\n"
        + "x, y = x, K.placeholder((None, 1))\n"
        + "def read_batches(name):\n"
        + "    return ([np.ones((2, 3)), np.ones((2, 1))] for _ in range(4))\n",
        "assert float(value) < 9",
    ),
    ("scaling.md", 5): (
        START
        + "x, w1, w2 = K.placeholder((None, 3)), K.variable(np.ones((3, 4))), K.ones((4, 3))\n",
        "slopes = K.function([x], K.gradients(K.sum(h), [w1]))([np.ones((2, 3))])\n"
        "assert slopes[0].tolist() == [[6.0] * 4] * 3",
    ),
    ("onnx.md", 1): (
        START
        + "import onnxruntime\n"
        + "x = K.placeholder((None, 3), name='points')\n"
        + "t = K.placeholder((None, 1), name='labels')\n"
        + "w = K.variable(np.zeros((3, 1)), name='w')\n"
        + "loss = K.mean(K.square(K.dot(x, w) - t))\n"
        + "step = K.function([x, t], [loss], [K.update_sub(w, 0.1 * K.gradients(loss, [w])[0])])\n"
        + "step.to_onnx('step.onnx', outputs=['loss'])\n"
        + "points = np.eye(3, dtype='float32')\n"
        + "batches = [(points, points[:, :1])] * 5\n",
        "losses = [float(step([points, points[:, :1]])[0]) for _ in batches]\n"
        "assert abs(losses[-1] - results['loss']) < 1e-6 and losses[0] > losses[-1]",
    ),
    ("how-it-works.md", 0): (
        "from backplane.core.primitive import primitive\nfrom backplane.core.spec import Spec\n"
        "from backplane.core.traits import Memory, like_first\n",
        "assert softmax.name == 'softmax' and softmax.decomposition",
    ),
    ("how-it-works.md", 1): (
        "import numpy as np\n"
        "tanh, matmul = np.tanh, lambda x, y, transpose_x, transpose_y: np.matmul(x, y)\n",
        "assert program(np.zeros((2, 3)), np.ones((3, 1)))[0].tolist() == [[0.0], [0.0]]",
    ),
    ("how-it-works.md", 2): (
        "import numpy as np\nfrom backplane.core.spec import Spec, is_float\n"
        "from backplane.engines.table import Table\n",
        "assert TABLE['round'].function([Spec((), 'int32')]) is np.positive\n"
        "assert TABLE['flip'].function(np.arange(3), axes=(0,)).tolist() == [2, 1, 0]",
    ),
    ("classic-keras.md", 1): (
        "",
        "drawn = backend.eval(backend.random_uniform((2,)))\n"
        "backend.set_random_seed(0, portable=True)\n"
        "assert (drawn == backend.eval(backend.random_uniform((2,)))).all()",
    ),
    ("old-scripts.md", 1): (
        "",
        "from keras import backend as K\nassert K.eval(K.relu(K.constant([-1.0]))).tolist() == [0]",
    ),
}
"""For each fragment what stands before it, and what is true after it."""

WHOLE = {
    *PAGES, "classic-keras.md", "external-backends.md", "keras-3.md",
    "native-functions.md", "native-tensors.md", "old-scripts.md",
}  # fmt: skip
"""Pages whose programs `test_pages.py` and `interop/test_docs.py` run."""

PROGRAMS = {("torch.md", 2), *[("scaling.md", i) for i in range(4)]}
"""Programs on several devices. `test_scaling_page.py`, `test_torch_mesh.py` and `test_mesh.py` run
them.
"""

ENGINE = {"jax.md": "jax", "mlx.md": "mlx", "torch.md": "torch", "onnx.md": "cntk"}


def blocks(page: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("page", "number"), CONTEXTS)
def test_a_fragment(page: str, number: int, tmp_path: Path) -> None:
    engine = ENGINE.get(page, "numpy")
    if not installed(engine):
        pytest.skip(f"{engine} is not installed")
    before, after = CONTEXTS[page, number]
    env = {**os.environ, "KERAS_BACKEND": engine, "KERAS_HOME": str(tmp_path)}
    text = f"{before}\n{blocks(page)[number]}\n{after}\n"
    done = waiting.run([sys.executable, "-c", text], env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_every_block_is_run() -> None:
    known = {*PROGRAMS, *CONTEXTS, *[(page, 0) for page in LEADING]}
    for file in DOCS.rglob("*.md"):
        page = file.relative_to(DOCS).as_posix()
        for number in range(len(blocks(page))):
            named = (page, number)
            assert page in WHOLE or named in known, named
