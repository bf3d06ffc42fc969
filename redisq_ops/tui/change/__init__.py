"""Changes from the dashboard: plan, dialog, speed, undo."""
