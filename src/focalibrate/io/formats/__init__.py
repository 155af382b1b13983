"""Formats of files of predictions: each is opened as a schema and a stream of tables."""
