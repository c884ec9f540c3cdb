"""Whole experiments: train what methods need, put them through the protocols, keep the results."""
