"""Charts as text: blocks, braille dots, and those of a queue."""
