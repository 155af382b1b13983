"""The experiments of the papers: an engine, the networks they share, a folder per paper."""
