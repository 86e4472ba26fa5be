"""Meeting other libraries: classic Keras, external backends, scripts that import `keras`."""
