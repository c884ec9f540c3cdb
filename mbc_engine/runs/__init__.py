"""Long work as other processes see it: the logs of its events, the folder of a run, the lock of whoever is at work."""
