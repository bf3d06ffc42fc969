"""Filter expressions, and the scan that selects entries by them."""
