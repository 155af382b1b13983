"""How many rows a job on a sample used, and for what."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """How many rows a job on a sample used.

    Attributes:
        n_rows: rows of the data that the sample was drawn from.
        n_fitted: rows that the methods were fitted on.
        n_judged: rows that they were evaluated on.
        n_shown: how many of these the diagrams are drawn from.
        has_test: whether the rows evaluated on come from a test set.
    """

    n_rows: int
    n_fitted: int
    n_judged: int
    n_shown: int
    has_test: bool

    @property
    def summary(self) -> str:
        """The same as a sentence."""
        where = "rows of the test set" if self.has_test else "others"
        text = (
            f"Fitted on {self.n_fitted:,} of {self.n_rows:,} rows, chosen by a hash of their "
            f"position, and evaluated on all {self.n_judged:,} {where}"
        )
        if self.n_shown < self.n_judged:
            text += f"; the diagrams of the page are drawn from {self.n_shown:,} of these"
        return f"{text}."
