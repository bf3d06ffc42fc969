"""What RedBeat's keys are called."""

AT = b"redbeat:"
DUE = AT + b":schedule"
"""the sorted set of its entries, by the time when they are due"""
