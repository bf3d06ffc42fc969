"""For tests of kinds of queues."""
