"""``python -m focalibrate``."""

from focalibrate.cli import main

main(prog_name="focalibrate")
