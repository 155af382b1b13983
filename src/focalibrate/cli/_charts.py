"""Charts made of characters."""

from focalibrate.metrics import ReliabilityTable


def reliability_chart(table: ReliabilityTable, *, width: int = 40) -> list[str]:
    """Return one line per non-empty bin: accuracy as a bar, mean confidence as a mark.

    A bar that ends left of its mark is overconfident, one that passes it underconfident.

    Example:
        >>> import numpy as np
        >>> table = ReliabilityTable.of_confidence(
        ...     np.array([0.75, 0.75, 0.75, 0.75]), np.array([1, 1, 0, 0]), n_bins=2)
        >>> print(*reliability_chart(table, width=8), sep="\\n")
        0.50-1.00 ████  |   confidence 0.75, accuracy 0.50, 4 examples
    """
    lines = []
    for b in range(len(table.count)):
        if not table.count[b]:
            continue
        said, right = table.confidence[b], table.accuracy[b]
        bar = list("█" * round(right * width) + " " * (width - round(right * width)))
        bar[min(round(said * width), width - 1)] = "|"
        count = round(float(table.count[b]))
        word = "example" if count == 1 else "examples"
        lines.append(
            f"{table.edges[b]:.2f}-{table.edges[b + 1]:.2f} {''.join(bar)} "
            f"confidence {said:.2f}, accuracy {right:.2f}, {count:,} {word}"
        )
    return lines
