"""K functions on KerasTensors: a functional model, saved, loaded and cloned. Prints predictions."""

import json
import sys

import keras
import numpy as np

from backplane import backend as K


def build():
    a, b = keras.Input((4,)), keras.Input((4,))
    both = K.square(K.concatenate([a, b])) + 1
    mean = K.mean(both, axis=1, keepdims=True)
    wide = K.concatenate([K.exp(a) * 2.0, mean, keras.layers.Dense(3)(both)], axis=-1)
    chosen = K.switch(K.greater(wide, 1.0), wide, K.zeros_like(wide))
    assert (both.shape, mean.shape, chosen.shape) == ((None, 8), (None, 1), (None, 8))
    return keras.Model([a, b], [chosen, K.sum(K.stack([a, b], axis=1), axis=[1, 2])])


def main(folder):
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((3, 4)).astype("float32") for _ in range(2)]
    model = build()
    for weight in model.weights:
        weight.assign(rng.standard_normal(weight.shape))
    expected = model.predict(data, verbose=0)
    model.save(f"{folder}/model.keras")
    cloned = keras.models.clone_model(model)
    described = keras.models.model_from_json(model.to_json())
    for other in (cloned, described):
        other.set_weights(model.get_weights())
    for other in (keras.models.load_model(f"{folder}/model.keras"), cloned, described):
        for found, wanted in zip(other.predict(data, verbose=0), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
    print(json.dumps([e.tolist() for e in expected]))


main(sys.argv[1])
