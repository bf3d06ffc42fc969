"""The same task in each program, with typed arguments, JSON and a result that is kept.

Scripts as those of `benchmarks.peers`, which also says what they measure; each has its program's
default settings but for the number of threads that its mode names.
"""
