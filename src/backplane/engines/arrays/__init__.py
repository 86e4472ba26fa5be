"""Lowerings on NumPy arrays that several engines share.

NumPy's own, and what libraries lack whose programs hold arrays while they run.
"""
