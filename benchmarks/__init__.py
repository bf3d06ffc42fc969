"""Measurements behind every figure in the docs: ``python -m benchmarks [NAME …]``.

Each prints what it measured, over how many rounds, on which server. Nothing here judges.
"""
