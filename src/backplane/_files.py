"""Writing a file so that it is the old one or the new one, whatever happens meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def beside(file: str, content: bytes) -> Iterator[str]:
    """Context manager: the name of a new file beside `file`. Its content is on the disk.
    At the end it is deleted, unless it has another name by then.
    """
    folder, name = os.path.split(file)
    part = os.path.join(folder, f".{name}.{os.urandom(8).hex()}")
    try:
        with open(part, "xb") as stream:
            stream.write(content)
            # A disk may store the name first: power loss must not leave an empty file.
            stream.flush()
            os.fsync(stream.fileno())
        yield part
    except OSError as error:
        if error.filename == part:
            error.filename = file  # The name that the caller knows.
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)


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
    with beside(file, content) as part:
        if os.path.exists(file):
            import shutil  # Here: it takes a start of K longer than all else in this module.

            shutil.copymode(file, part)
        os.replace(part, file)
    if os.name == "posix":  # The new name too must be on the disk.
        place = os.open(os.path.dirname(file), os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
