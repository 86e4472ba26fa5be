"""What serves only speed on NumPy arrays. Without it, results are the same but for rounding.

- `buffers`: large arrays are used again: a sixth of an LSTM's training step, a third of a step of
  Adam.
- `updates`: steps of optimizers write over old values, in programs with updates
  (`Engine.updates_in_place`). Without the pass `optimizer_steps`, no program asks for it.
"""
