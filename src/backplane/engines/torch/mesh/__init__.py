"""PyTorch over a mesh of devices, one process for each."""
