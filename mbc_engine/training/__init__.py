"""Training: data, token states, objective, loop, snapshots."""
