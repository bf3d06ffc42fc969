"""Commands of the dashboard, typed behind `:` or found by the palette."""
