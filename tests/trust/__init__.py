"""Attacks on what `docs/reliability.md` promises: faults, threads, and long runs."""
