"""What is wrong with a queue: rules over what was read of it. Pure functions, no reads."""
