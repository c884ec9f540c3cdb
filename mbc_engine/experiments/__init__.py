"""Whole experiments: train what methods need, put them through the protocols, keep the results.

Whatever a user can do something about is an `MBCError`: settings, datasets, models, or a file that is damaged.
"""
