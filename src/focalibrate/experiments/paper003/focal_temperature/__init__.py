"""The experiment `focal-temperature`."""
