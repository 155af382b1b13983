"""The numbers of paper 002's Tables 1–13 for the data sets of the pool."""

from dataclasses import dataclass

from focalibrate.experiments.networks.recipes import Problem


@dataclass(frozen=True)
class PaperValues:
    """A network's numbers, all in percent except the temperatures."""

    ece: float
    ece_post: float
    temperature: float
    """that minimises ECE on validation data"""
    ada: float
    ada_post: float
    ada_temperature: float
    """of least AdaECE"""
    error: float
    nll: float
    nll_post: float
    mce: float
    mce_post: float


PAPER_VALUES: dict[tuple[Problem, str], dict[str, PaperValues]] = {
    ("cifar10", "ResNet-50"): {
        "ce": PaperValues(4.35, 1.35, 2.50, 4.33, 2.14, 2.50, 4.95, 41.21, 20.38, 38.65, 20.60),
        "brier": PaperValues(1.82, 1.08, 1.10, 1.74, 1.23, 1.10, 5.00, 18.67, 18.36, 31.54, 22.46),
        "mmce": PaperValues(4.56, 1.19, 2.60, 4.55, 2.06, 2.50, 4.99, 44.83, 21.58, 60.06, 23.60),
        "fl1": PaperValues(3.42, 1.08, 1.60, 3.42, 1.51, 1.60, 4.93, 22.67, 17.56, 31.75, 25.86),
        "fl2": PaperValues(2.36, 0.91, 1.20, 2.37, 1.69, 1.20, 4.98, 18.60, 17.67, 25.00, 28.17),
        "fl3": PaperValues(1.48, 1.42, 1.10, 1.95, 1.83, 1.10, 5.25, 18.43, 18.34, 21.83, 15.76),
        "flsd53": PaperValues(
            1.55, 0.95, 1.10, 1.56, 1.26, 1.10, 4.98, 17.55, 17.37, 14.89, 26.37
        ),
    },
    ("cifar10", "ResNet-110"): {
        "ce": PaperValues(4.41, 1.09, 2.80, 4.40, 1.84, 2.70, 4.89, 47.51, 21.52, 44.25, 29.98),
        "brier": PaperValues(2.56, 1.25, 1.20, 2.60, 1.70, 1.20, 5.48, 20.44, 19.60, 25.18, 22.73),
        "mmce": PaperValues(5.08, 1.42, 2.80, 5.06, 2.45, 2.70, 5.40, 55.71, 24.61, 67.52, 31.87),
        "fl1": PaperValues(3.46, 1.20, 1.60, 3.42, 1.57, 1.70, 4.78, 22.54, 17.32, 73.35, 29.74),
        "fl2": PaperValues(2.70, 0.89, 1.30, 2.69, 1.29, 1.30, 5.06, 19.19, 17.53, 25.92, 23.82),
        "fl3": PaperValues(1.55, 1.02, 1.10, 1.62, 1.44, 1.10, 5.08, 17.80, 17.62, 25.15, 37.61),
        "flsd53": PaperValues(
            1.87, 1.07, 1.10, 2.07, 1.67, 1.10, 5.42, 18.54, 18.24, 18.95, 17.35
        ),
    },
    ("20newsgroups", "Global-pooling CNN"): {
        "ce": PaperValues(17.92, 2.39, 3.40, 17.91, 2.20, 3.30, 26.68, 176.57, 87.95, 36.91, 6.10),
        "brier": PaperValues(
            13.58, 3.22, 2.30, 13.57, 2.60, 2.20, 27.06, 130.41, 93.11, 31.35, 13.04
        ),
        "mmce": PaperValues(
            15.48, 6.78, 2.20, 15.21, 7.07, 2.10, 27.23, 158.70, 99.74, 34.72, 15.12
        ),
        "fl1": PaperValues(
            15.06, 2.14, 2.60, 15.06, 2.55, 2.70, 26.13, 140.40, 87.24, 34.28, 7.79
        ),
        "fl2": PaperValues(
            12.10, 3.22, 1.60, 12.10, 3.33, 1.60, 28.23, 115.97, 93.60, 24.10, 11.88
        ),
        "fl3": PaperValues(8.67, 3.51, 1.50, 8.65, 3.78, 1.50, 29.26, 109.62, 94.69, 18.85, 22.22),
        "flsd53": PaperValues(
            6.92, 2.19, 1.50, 6.92, 2.17, 1.40, 27.98, 109.17, 93.98, 17.44, 12.65
        ),
    },
    ("sst_binary", "Tree-LSTM"): {
        "ce": PaperValues(7.37, 2.62, 1.80, 7.31, 2.10, 1.80, 12.85, 50.20, 41.05, 71.08, 88.48),
        "brier": PaperValues(
            9.01, 2.79, 2.50, 9.42, 2.80, 2.70, 12.85, 54.96, 38.27, 92.62, 91.86
        ),
        "mmce": PaperValues(5.03, 4.02, 1.50, 4.49, 3.72, 1.50, 11.86, 37.28, 36.37, 68.43, 32.92),
        "fl1": PaperValues(6.78, 3.29, 1.60, 6.01, 2.92, 1.70, 12.63, 53.90, 45.67, 95.48, 87.77),
        "fl2": PaperValues(3.05, 3.05, 1.00, 2.67, 2.67, 1.00, 12.30, 47.72, 47.72, 86.21, 86.21),
        "fl3": PaperValues(
            16.05, 1.78, 0.50, 15.64, 2.17, 0.50, 12.19, 50.29, 45.96, 22.32, 74.52
        ),
        "fls531": PaperValues(
            4.66, 3.36, 1.40, 3.94, 1.90, 1.30, 12.36, 50.25, 45.82, 76.28, 54.27
        ),
        "fls532": PaperValues(
            3.91, 2.64, 0.90, 2.94, 2.50, 0.90, 13.07, 53.13, 54.52, 86.93, 88.85
        ),
        "flsd532": PaperValues(
            4.47, 2.77, 0.90, 3.54, 3.54, 1.00, 12.30, 45.08, 45.36, 80.85, 82.42
        ),
        "flsd53": PaperValues(
            9.19, 1.83, 0.70, 8.63, 1.92, 0.70, 12.80, 49.23, 49.69, 73.70, 76.71
        ),
    },
}
"""By set and network, then by loss; FLSD-53 is the paper's FLA-53, "sample-wise γ 5,3". Schedules
and FLSD-532 are only given for SST, for the experiment `sst`."""
MAIN: dict[Problem, str] = {
    "cifar10": "ResNet-50",
    "20newsgroups": "Global-pooling CNN",
    "sst_binary": "Tree-LSTM",
}
"""The network of the paper that the pool trains at full size."""


def paper_values(problem: Problem, loss: str) -> dict[str, PaperValues]:
    """Return the paper's numbers for a data set and loss, by network; empty if it prints none."""
    return {
        network: losses[loss]
        for (where, network), losses in PAPER_VALUES.items()
        if where == problem and loss in losses
    }
