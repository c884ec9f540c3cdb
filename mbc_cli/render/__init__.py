"""Terminal output. Data goes to stdout, everything else to stderr."""
