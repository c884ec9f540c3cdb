"""Ingestion: reading files into a bank with a model."""
