"""From graphs to programs: simplification, emission as straight-line Python, `K.function`."""
