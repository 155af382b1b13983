"""The colours of every picture: Okabe and Ito's, distinct for colour-blind readers too."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6e6e6e", "#000000")
BLUE, ORANGE, GREY = COLORS[0], COLORS[1], COLORS[6]
