"""Queues of every kind with entries in every state, what is done to them, and what somebody else
may have done to their keys before: nothing may be half done then.

`stages` builds a queue and says which operations it has, `database` saves and restores it within a
millisecond, `corruptions` names what can be spoilt, `verdicts` judges what an operation left.
"""
