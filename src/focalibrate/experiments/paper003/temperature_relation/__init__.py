"""The experiment `temperature-relation`."""
