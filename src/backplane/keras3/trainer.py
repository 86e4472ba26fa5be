"""`fit`, `evaluate` and `predict` of Keras' models on Backplane."""


class BackplaneLayer:
    """What layers have beside what Keras gives them."""


class BackplaneTrainer:
    """What models have beside what Keras gives them."""
