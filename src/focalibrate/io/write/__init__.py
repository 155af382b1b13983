"""Writing calibrated probabilities in place of the scores; everything else is kept."""
