"""Names, shapes and attributes around classic Keras that public code relies on."""

import pytest

from backplane import engines
from interop.test_classic import LATEST, script


def test_names_that_keras_takes_from_tensorflow_only(tmp_path):
    script(
        tmp_path,
        """
from keras import backend as K
assert K.image_dim_ordering() == "tf"
x = K.placeholder((2,))
assert K.get_session().run(x + 1.0, {x: [1, 2]}).tolist() == [2, 3]
K.set_learning_phase(1)
K.clear_session()
assert K.eval(K.in_train_phase(K.ones(()), K.zeros(()))) == 0
""",
    )


def test_models_inside_loops(tmp_path):
    """A model that is called on the rows of a loop asks them for attributes that only what a layer
    returned has."""
    script(
        tmp_path,
        """
import numpy as np
from keras import backend as K
from keras import layers as L
from keras.models import Model, Sequential
inner = Sequential([L.Dense(4, input_shape=(3,)), L.Dropout(0.5), L.Dense(2)])
x = L.Input((5, 3))
y = L.TimeDistributed(inner)(x)
rows = L.Lambda(lambda t: K.map_fn(inner, t[:, 0]), output_shape=(2,))
model = Model(x, [y, L.TimeDistributed(L.Dropout(0.5))(y)])
model.compile("sgd", "mse")
value = np.random.RandomState(0).normal(size=(2, 5, 3))
model.train_on_batch(value, [np.ones((2, 5, 2))] * 2)
wanted = np.stack([inner.predict(value[:, i]) for i in range(5)], 1)
for found in model.predict(value):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
last, _, _ = K.rnn(lambda t, s: (inner(t), []), K.variable(value), [], unroll=True)
np.testing.assert_allclose(K.eval(last), wanted[:, -1], rtol=1e-5, atol=1e-6)
""",
    )


def test_names_of_tensors_begin_with_their_layers(tmp_path):
    script(
        tmp_path,
        """
from keras import layers as L
from keras.models import Sequential
model = Sequential([L.LSTM(3, input_shape=(4, 2), name="first"), L.Dense(2, name="second")])
assert [t.output.name.split("/")[0] for t in model.layers] == ["first", "second"]
""",
    )


def test_models_in_files_in_memory(tmp_path):
    script(
        tmp_path,
        """
import h5py
import numpy as np
from keras.layers import Dense
from keras.models import Sequential, load_model
model = Sequential([Dense(2, input_shape=(3,))])
with h5py.File("never written", driver="core", backing_store=False) as file:
    model.save(file)
    same = load_model(file)
    assert len(file.fid.get_file_image()) > 1000
np.testing.assert_allclose(same.predict(np.ones((1, 3))), model.predict(np.ones((1, 3))))
""",
    )


@pytest.mark.parametrize(("release", "shape"), [(LATEST, (2, 3, 4, 3, 6)), ("2.2.4", (2, 3, 4, 6))])
def test_batch_dot_is_that_of_the_release(tmp_path, release, shape):
    """Before 2.3, products on TensorFlow took two axes for those of the samples."""
    script(
        tmp_path,
        f"""
import numpy as np
from keras import backend as K
x, y = np.arange(120.0).reshape(2, 3, 4, 5), np.arange(180.0).reshape(2, 3, 6, 5)
found = K.batch_dot(K.variable(x), K.variable(y), [3, 3])
assert K.int_shape(found) == {shape}
paired = np.einsum("shac,shbc->shab", x, y)
wanted = paired if found.ndim == 4 else np.einsum("shac,stbc->shatb", x, y)
np.testing.assert_allclose(K.eval(found), wanted, rtol=1e-5)
turned = K.batch_dot(K.variable(x.swapaxes(2, 3)), K.variable(y.swapaxes(2, 3)), axes=2)
np.testing.assert_allclose(K.eval(turned), wanted, rtol=1e-5)
if found.ndim == 4:
    mixed = K.batch_dot(K.variable(x[..., 0]), K.variable(y[:, :, :4]), [2, 2])
    np.testing.assert_allclose(K.eval(mixed), np.einsum("sha,shac->shc", x[..., 0], y[:, :, :4]))
    documented = K.batch_dot(K.variable(y), K.variable(x[:, :, 0]), [3, 2])
    np.testing.assert_allclose(K.eval(documented), np.einsum("shac,stc->shat", y, x[:, :, 0]))
rows = K.batch_dot(K.ones((2, 3)), K.ones((2, 3)), axes=1)
assert K.eval(rows).tolist() == [[3], [3]]
""",
        release=release,
    )


def test_a_program_is_told_another_name(tmp_path):
    """Many programs refuse every backend but Keras' own."""
    text = """
from keras import backend as K
from keras.layers import Dense
from keras.models import Sequential
assert K.backend() == "tensorflow", K.backend()
model = Sequential([Dense(2, input_shape=(3,))])
model.compile("adam", "mse")  # Keras itself would ask for tf here.
"""
    for release in (LATEST, "2.1.6"):
        script(tmp_path, text, release=release, BACKPLANE_KERAS_NAME="tensorflow")


def test_a_layer_that_computes_the_loss(tmp_path):
    """It gives a scalar, and says that it gives one number per sample: so do detectors' losses."""
    script(
        tmp_path,
        """
import numpy as np
from keras import backend as K
from keras.layers import Dense, Input, Lambda
from keras.models import Model
x, t = Input((3,)), Input((2,))
y = Dense(2)(x)
loss = Lambda(lambda a: K.mean(K.square(a[0] - a[1])), output_shape=(1,), name="loss")([y, t])
assert K.int_shape(loss) == (None, 1)
model = Model([x, t], loss)
model.compile("sgd", {"loss": lambda y_true, y_pred: y_pred})
data = [np.ones((4, 3)), np.ones((4, 2))]
losses = [model.train_on_batch(data, np.zeros(4)) for _ in range(5)]
assert losses[-1] < losses[0]
""",
    )


RELEASES = [LATEST, "2.2.4", "2.0.9"]


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_lambdas_without_a_shape(tmp_path, release):
    """Keras infers shapes of `Lambda` on its own backends only."""
    script(
        tmp_path,
        """
import warnings
import numpy as np
from keras import backend as K
from keras.layers import Dense, Input, Lambda, TimeDistributed
from keras.models import Model, Sequential
warnings.simplefilter("error", UserWarning)
i = Input((4,))
several = Lambda(lambda x: [x * 2, K.sum(x, axis=1, keepdims=True)], name="several")
a, b = several(i)
assert several.output_shape == [(None, 4), (None, 1)]
n = Input((3,), dtype="int32")
wide = Lambda(lambda x: K.one_hot(x, 5))(n)
assert K.int_shape(wide) == wide._keras_shape == (None, 3, 5)
joined = Lambda(lambda xs: [K.concatenate(xs), xs[0] * 1.0])([a, b])
assert [t._keras_shape for t in joined] == [(None, 5), (None, 4)]
model = Model([i, n], [Dense(2)(joined[0]), joined[1], wide])
assert model.output_shape == [(None, 2), (None, 4), (None, 3, 5)]
found = model.predict([np.ones((2, 4)), np.zeros((2, 3))])
assert [y.shape for y in found] == [(2, 2), (2, 4), (2, 3, 5)]
rows = Sequential([TimeDistributed(Lambda(lambda x: x[:, :2]), input_shape=(6, 4))])
assert rows.output_shape == (None, 6, 2)
assert Sequential([Lambda(lambda x: x, output_shape=(7,), input_shape=(7,))]).output_shape[1] == 7
""",
        release=release,
    )


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_programs_that_reset_a_model(tmp_path, release):
    script(
        tmp_path,
        """
import numpy as np
from keras import backend as K
from keras.layers import BatchNormalization, Dense, LSTM
from keras.models import Sequential
model = Sequential([LSTM(3, input_shape=(4, 2)), BatchNormalization(), Dense(2)])
model.compile("sgd", "mse")
before = [K.get_value(w) for w in model.weights]
model.set_weights([w + 1 for w in model.get_weights()])
session = K.get_session()
for layer in model.layers:
    for name, value in vars(layer).items():
        if hasattr(value, "initializer"):
            value.initializer.run(session=session)
for w in model.weights:
    if hasattr(w, "initializer"):
        session.run(w.initializer)
for w, old in zip(model.weights, before):
    after = K.get_value(w)
    assert not np.allclose(after, old + 1), w.name
    drawn = "kernel" in w.name and "recurrent" not in w.name  # Orthogonal weights are an array.
    assert np.allclose(after, old) != drawn, w.name
""",
        release=release,
    )


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_names_of_libraries(tmp_path, release):
    """`K.tf` is TensorFlow on its own engine, and refused by name on the others."""
    script(
        tmp_path,
        """
from keras import backend as K
try:
    K.tf
except AttributeError as error:
    assert "TensorFlow itself is not part of K on the engine 'numpy'" in str(error), error
else:
    raise AssertionError
""",
        release=release,
    )
    if engines.installed("tensorflow"):
        script(
            tmp_path,
            """
del sys.modules["tensorflow"]
import tensorflow
from keras import backend as K
assert K.tf is tensorflow
""",
            backend="backplane.tensorflow",
            release=release,
        )


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ("backplane.jxa", "KERAS_BACKEND asks for the backend 'backplane.jxa', which is neither"),
        ("jxa", r"which is neither an engine nor a module.*did you mean 'jax'"),
        ("no_package.module", "'no_package.module', which is neither an engine nor a module"),
        ("backplane.mlx", r"asks for the engine .backplane.mlx., whose library is not installed"),
    ],
)
def test_the_reason_why_a_backend_cannot_be_loaded(tmp_path, release, backend, reason):
    text = """
from backplane import engines
engines.installed = lambda name: name == "numpy"
import keras
"""
    with pytest.raises(AssertionError, match=reason):
        script(tmp_path, text, backend=backend, release=release)


def test_the_file_that_names_no_backend(tmp_path):
    (tmp_path / "keras.json").write_text('{"backend": "jxa"}')
    with pytest.raises(AssertionError, match=r"keras\.json asks for the backend 'jxa'"):
        script(tmp_path, "import keras", backend="")
