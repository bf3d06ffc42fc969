"""Screens and panes beside the views: one entry, an explanation, a preview."""
