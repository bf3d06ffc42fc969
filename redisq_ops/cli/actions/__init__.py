"""What the commands do, with the session and the values of their options."""
