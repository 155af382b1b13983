"""Scripts that make the vectors import packages that are not dependencies; they have no tests."""

collect_ignore_glob = ["make*.py"]
