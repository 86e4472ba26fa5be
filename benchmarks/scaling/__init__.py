"""How programs on a mesh scale: equality, weak scaling, memory, faults, and a model of the cost.

`python -m benchmarks.scaling` measures on this machine and prints tables in Markdown.
"""
