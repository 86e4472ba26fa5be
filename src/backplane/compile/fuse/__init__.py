"""Finds in programs what a library computes by one kernel, from the declarations in `ops` alone."""
