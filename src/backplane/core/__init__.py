"""The graph: specs, tensors, primitives, variables. This package knows no op and no engine."""
