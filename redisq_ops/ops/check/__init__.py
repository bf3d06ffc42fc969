"""Rules for monitors: the thresholds and conditions of each queue, and what breaks them."""
