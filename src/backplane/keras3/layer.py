"""The base of Keras' layers on Backplane. It stands alone, because layers come before models."""


class BackplaneLayer:
    """What layers have beside what Keras gives them: nothing."""
