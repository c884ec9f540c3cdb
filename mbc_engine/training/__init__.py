"""Training: data, states, objective, loop, snapshots."""
