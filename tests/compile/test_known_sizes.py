"""What takes the place of a node knows the sizes that the node knew."""

import numpy as np

from backplane import backend as K


def test_the_kernel_of_a_convolution_may_be_a_convolution(engine):
    """The batch of the inner one is unknown, its result has the size that was asked for. A random
    program found that its decomposition, which JAX uses, did not know it.
    """
    x, w = K.placeholder((None, 2, 1, 2)), K.placeholder((None,) * 4)
    inner = K.reshape(w, (3, 3, 1, 2))
    kernel = K.conv2d_transpose(x, inner, (2, 2, 1, 1), padding="same")
    image = K.variable(np.arange(20.0).reshape(1, 5, 4, 1))
    y = K.conv2d_transpose(image, kernel, (1, 10, 8, 1), (2, 2), padding="same")
    rng = np.random.default_rng(0)
    feeds = [rng.random((2, 2, 1, 2), "float32"), rng.random((3, 3, 1, 2), "float32")]
    found, used = K.function([x, w], [y, kernel])(feeds)
    wanted = np.einsum("bhwc,klc->bhkwl", K.get_value(image), used[..., 0])
    np.testing.assert_allclose(found, wanted.reshape(1, 10, 8, 1), rtol=1e-4)
