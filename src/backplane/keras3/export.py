"""`model.export` on Backplane."""


class BackplaneExportArchive:
    """The archive of a SavedModel: it is TensorFlow's format, which this backend does not write."""
