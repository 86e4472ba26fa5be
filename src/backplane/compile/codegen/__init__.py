"""From graphs to Python text: programs, their buffers, loops over blocks, calls."""
