"""The papers' experiments: one file per row of SPEC E."""
