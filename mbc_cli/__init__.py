"""The command line: parses, calls the engine once, renders."""
