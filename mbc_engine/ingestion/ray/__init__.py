"""Ingest on Ray: files are read and encoded by processes of one machine or many, and come into one bank."""
