"""Writing a file so that it is the old one or the new one, whatever happens meanwhile."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress


def replace(file: str, content: bytes) -> None:
    """Put `content` into `file` in one step, and return when the disk has it.

    Permissions of a file that is there stay; a new one gets the usual ones.

    Raises:
        OSError: if it cannot be written. Then `file` is as it was, and nothing lies beside it.

    Example:
        >>> from tempfile import mkdtemp
        >>> file = os.path.join(mkdtemp(), "file")
        >>> replace(file, b"new")
        >>> open(file, "rb").read(), os.listdir(os.path.dirname(file))
        (b'new', ['file'])
    """
    file = os.path.realpath(file)
    folder, name = os.path.split(file)
    part = os.path.join(folder, f".{name}.{os.urandom(8).hex()}")
    try:
        with open(part, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(file):
            shutil.copymode(file, part)
        os.replace(part, file)
    except BaseException:
        with suppress(FileNotFoundError):  # An interrupt may come after the last step.
            os.unlink(part)
        raise
    if os.name == "posix":  # The new name too must be on the disk.
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
