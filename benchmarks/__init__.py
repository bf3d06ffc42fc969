"""Measurements behind the figures in the docs: ``python -m benchmarks [NAME …]``.

Each prints what it measured, in how many rounds and on which server. None of them passes or fails.
"""
