"""Running a script as Python runs it, in a process that has prepared for it."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType


def run(
    script: Path,
    arguments: Sequence[str],
    advice: Callable[[BaseException], str | None] = lambda error: None,
) -> None:
    """Run a script as `__main__`. If it fails, the traceback begins with the script's own frames.

    Args:
        script: The file.
        arguments: What the script finds in `sys.argv` behind its own name.
        advice: Says what to do about an error, which is shown below the traceback.

    Example:
        >>> import pathlib, tempfile
        >>> from backplane.interop import scripts
        >>> file = pathlib.Path(tempfile.mkdtemp(), "script.py")
        >>> _ = file.write_text("import sys; print(sys.argv[1:])")
        >>> scripts.run(file, ["-n", "3"])  # doctest: +SKIP
        ['-n', '3']
    """
    sys.argv = [str(script), *arguments]
    # As with Python itself, modules beside the script can be imported.
    sys.path[0] = str(script.resolve().parent)
    show = sys.excepthook

    def own(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        # There is no frame of the script where it does not even compile.
        if text := advice(error):
            error.add_note(text)
        show(kind, error.with_traceback(_below(trace, str(script))), error.__traceback__)

    sys.excepthook = own
    try:
        runpy.run_path(str(script), run_name="__main__")
    except (EOFError, KeyboardInterrupt) as error:  # of which click would only say "Aborted!"
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def _below(trace: TracebackType | None, file: str) -> TracebackType | None:
    """The part of a traceback from the first frame of `file` on."""
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    return trace
