"""From graphs to programs: passes, code generation, `K.function`."""
