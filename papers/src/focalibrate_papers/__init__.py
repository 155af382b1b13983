"""The papers behind focalibrate: their experiments, networks, data sets and claims."""

__version__ = "0.1.0"
