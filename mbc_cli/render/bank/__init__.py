"""A bank on the terminal, and what is done to it."""
