"""From programs to Python: buffers, text, loops over blocks, calls."""
