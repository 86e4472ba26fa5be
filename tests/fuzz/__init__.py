"""Random programs and bad calls, and what they must lead to on every engine.

`python -m fuzz` (from `tests/`, or `make fuzz`) looks for programs whose results differ from those
of `reference`, and for calls that fail in other ways than documented.
"""
