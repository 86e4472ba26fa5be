"""Blocks of newer networks, once per library: what `layers` has is built on top of them."""
