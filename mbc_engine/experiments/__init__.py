"""Whole experiments: train what methods need, run the protocols, keep the results."""
