"""Using a model: files into a bank, answers out of it."""
