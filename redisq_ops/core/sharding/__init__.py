"""One queue over several hash slots."""
