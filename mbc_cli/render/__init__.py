"""Everything that is drawn on a terminal. Data goes to stdout, all else to stderr."""
