"""Evaluation of a model on questions."""
