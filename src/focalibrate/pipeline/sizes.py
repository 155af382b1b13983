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
        n_folds: parts of the rows, each evaluated by calibrators fitted on the others; 0: the rows
            evaluated on were not fitted on at all.
    """

    n_rows: int
    n_fitted: int
    n_judged: int
    n_shown: int
    has_test: bool
    n_folds: int = 0

    @property
    def summary(self) -> str:
        """The same as a sentence."""
        where = "rows of the test set" if self.has_test else "others"
        text = self._words(where)
        if self.n_shown < self.n_judged:
            text += f"; the diagrams of the page are drawn from {self.n_shown:,} of these"
        return f"{text}."

    def _words(self, where: str) -> str:
        if self.n_folds:
            return (
                f"Fitted on all {self.n_fitted:,} rows, by passes over them; evaluated on the "
                "same rows, each by a calibrator fitted on the half that it is not in (halves "
                "chosen by a hash of the position)"
            )
        if self.n_fitted == self.n_rows:
            return (
                f"Fitted on all {self.n_fitted:,} rows, by passes over them, and evaluated on all "
                f"{self.n_judged:,} {where}"
            )
        return (
            f"Fitted on {self.n_fitted:,} of {self.n_rows:,} rows, chosen by a hash of their "
            f"position, and evaluated on all {self.n_judged:,} {where}"
        )
