"""Figures, charts and the page of a report."""
