"""The kinds of queue of ours, a folder each."""
