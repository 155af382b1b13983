"""The experiment `sst`."""
