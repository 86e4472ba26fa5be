"""Backplane as a pluggable backend of Keras: names only; all of it is `backplane.keras3`."""
