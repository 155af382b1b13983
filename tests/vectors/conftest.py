"""Scripts that make the vectors import peers that are no dependencies: they hold no tests."""

collect_ignore_glob = ["make*.py"]
