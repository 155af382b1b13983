"""The trained networks that experiments share."""
