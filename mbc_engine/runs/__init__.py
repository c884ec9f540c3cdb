"""Long-running work as other processes see it: event logs, run folders and locks."""
