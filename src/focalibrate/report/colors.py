"""The colours of every picture: those of Okabe and Ito, which the colour-blind tell apart too."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6e6e6e", "#000000")
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY, BLACK = COLORS
