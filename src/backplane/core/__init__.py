"""The graph: specs, tensors, primitives, gradients. Knows no op and no engine."""
