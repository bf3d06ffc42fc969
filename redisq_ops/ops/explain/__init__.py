"""Why something is not running, or where it went."""
