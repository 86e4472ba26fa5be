"""JAX over a mesh of devices."""
