"""Code that deploys a calibrator, to be copied from the page."""

from dataclasses import dataclass

from focalibrate.calibrate import (
    Calibrator,
    GroupedCalibrator,
    PosteriorRecovery,
    TemperatureScaling,
)
from focalibrate.io import ScoreKind


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """A few lines of code and what they are for."""

    title: str
    language: str
    note: str
    code: str


MAX_WRITTEN = 20
"""With more classes than this, weights are read from the file instead of written out."""

_LOAD = """\
from focalibrate import Calibrator

calibrator = Calibrator.load("calibrator.json")
"""


def deployment_snippets(
    calibrator: Calibrator, *, method: str, scores: ScoreKind = "logits"
) -> list[Snippet]:
    """Return how to use `calibrator` in Python, torch, ONNX, scikit-learn and a terminal.

    Args:
        calibrator: the one to deploy, saved as ``calibrator.json``.
        method: its name in `focalibrate.calibrate.METHODS`, for scikit-learn.
        scores: whether the model returns logits or probabilities.

    Example:
        >>> from focalibrate.calibrate import TemperatureScaling
        >>> found = deployment_snippets(TemperatureScaling(temperature=2.0), method="temperature")
        >>> [snippet.title for snippet in found]
        ['Python', 'NumPy only', 'torch', 'ONNX', 'scikit-learn', 'Command line']
    """
    is_logits = scores == "logits"
    return [
        Snippet(
            title="Python",
            language="python",
            note=f"{'Logits' if is_logits else 'Probabilities'} [N, K] of NumPy, torch or JAX in, "
            "probabilities of the same library out.",
            code=_LOAD
            + (
                "probs = calibrator.probs(logits)\n"
                if is_logits
                else "probs = calibrator.probs(probs=model_probs)\n"
            ),
        ),
        *_without_focalibrate(calibrator, is_logits),
        _torch(is_logits),
        _onnx(is_logits),
        _scikit_learn(method, is_logits),
        Snippet(
            title="Command line",
            language="sh",
            note="Any file of predictions that `focalibrate calibrate` reads.",
            code="focalibrate apply calibrator.json predictions.csv -o calibrated.csv\n",
        ),
    ]


def grouped_snippets(
    calibrator: GroupedCalibrator, *, scores: ScoreKind = "logits"
) -> list[Snippet]:
    """Return how to use a calibrator that needs the group of each row.

    Args:
        calibrator: the one to deploy, saved as ``calibrator.json``.
        scores: whether the model returns logits or probabilities.
    """
    argument = "logits" if scores == "logits" else "probs=model_probs"
    first = calibrator.own_groups[0] if calibrator.own_groups else ""
    return [
        Snippet(
            title="Python",
            language="python",
            note=f"Needs the column {calibrator.column!r} of every row. Groups that were not seen "
            "use the shared calibrator.",
            code=f"{_LOAD}probs = calibrator.probs({argument}, "
            f"groups=frame[{calibrator.column!r}])\n",
        ),
        Snippet(
            title="torch, ONNX",
            language="python",
            note="A module or graph of the scores alone cannot know the group: export one "
            "for each group that has its own, and the shared one.",
            code=f"{_LOAD}module = calibrator.of_group({first!r}).to_torch()\n"
            "rest = calibrator.shared.to_torch()\n",
        ),
        Snippet(
            title="Command line",
            language="sh",
            note=f"The file must have the column {calibrator.column!r}.",
            code="focalibrate apply calibrator.json predictions.csv -o calibrated.csv\n",
        ),
    ]


def _without_focalibrate(calibrator: Calibrator, is_logits: bool) -> list[Snippet]:
    if isinstance(calibrator, PosteriorRecovery):
        few = (calibrator.n_classes or 0) <= MAX_WRITTEN
        return [_recovery(calibrator, is_logits)] if few else []
    if not isinstance(calibrator, TemperatureScaling):
        return []
    mix = calibrator.zero_mix
    mixed = f"{1 - mix!r} * model_probs + {mix!r} / model_probs.shape[-1]"
    floored = "np.maximum(model_probs, 2e-38)"
    argument = "logits" if is_logits else f"np.log({mixed if mix else floored})"
    return [
        Snippet(
            title="NumPy only",
            language="python",
            note="Temperature scaling is one division: nothing has to be installed.",
            code="import numpy as np\n"
            "\n"
            f"z = {argument} / {calibrator.temperature!r}\n"
            "z = np.exp(z - z.max(axis=-1, keepdims=True))\n"
            "probs = z / z.sum(axis=-1, keepdims=True)\n",
        )
    ]


def _recovery(calibrator: PosteriorRecovery, is_logits: bool) -> Snippet:
    """Return posterior recovery from its settings alone, which are those of the training."""
    return Snippet(
        title="Without a file",
        language="python",
        note="Nothing was fitted: these settings say how the model was trained (exponent, class "
        "weights or α, label smoothing) and where it is used (class frequencies).",
        code="from focalibrate import PosteriorRecovery\n"
        + ("" if calibrator.loss is None else "from focalibrate.theory import loss_form\n")
        + "\n"
        f"calibrator = {calibrator!r}\n"
        f"probs = calibrator.probs({'logits' if is_logits else 'probs=model_probs'})\n"
        f"# in a terminal: focalibrate apply {_flags(calibrator)} predictions.csv -o out.csv\n",
    )


def _flags(calibrator: PosteriorRecovery) -> str:
    """Return the options of `focalibrate apply` that mean the same."""
    per_class = {
        "class-weight": calibrator.class_weight,
        "trained-prior": calibrator.prior,
        "prior": calibrator.target_prior,
    }
    loss = calibrator.loss
    if loss is None:
        words = [f"--focal {calibrator.gamma:g}"]
    else:
        words = [f"--loss {loss.name}"]
        per_class |= {k: v for k, v in loss.parameters.items() if isinstance(v, tuple)}
        numbers = {k: v for k, v in loss.parameters.items() if isinstance(v, (int, float))}
        words += [f"--{k.replace('_', '-')} {v:g}" for k, v in numbers.items()]
    words += [f"--{k} {','.join(f'{x:g}' for x in v)}" for k, v in per_class.items() if v]
    if calibrator.label_smoothing:
        words.append(f"--label-smoothing {calibrator.label_smoothing:g}")
    return " ".join(words)


def _torch(is_logits: bool) -> Snippet:
    wrapped = (
        "from focalibrate.nn import CalibratedModel\n\n"
        "calibrated = CalibratedModel(model, calibrator)  # a torch.nn.Module\n"
        "probs = calibrated(batch)\n"
    )
    kind = "logits" if is_logits else "probabilities"
    return Snippet(
        title="torch",
        language="python",
        note=f"`model` returns {kind}. Works with torch.compile and torch.export.",
        code=_LOAD + "\n" + wrapped,
    )


def _onnx(is_logits: bool) -> Snippet:
    attached = (
        "from focalibrate.deploy import attach_to_onnx\n\n"
        'attach_to_onnx("model.onnx", calibrator, "calibrated.onnx")  # adds the output "probs"\n'
    )
    alone = 'calibrator.to_onnx("calibrator.onnx")  # takes probabilities\n'
    return Snippet(
        title="ONNX",
        language="python",
        note="Runs in any ONNX runtime, without Python."
        if not is_logits
        else "The classifier and its calibrator in one graph, for any ONNX runtime.",
        code=_LOAD + "\n" + (attached if is_logits else alone),
    )


def _scikit_learn(method: str, is_logits: bool) -> Snippet:
    scores = (
        "logits=classifier.decision_function(X)"
        if is_logits
        else ("probs=classifier.predict_proba(X)")
    )
    return Snippet(
        title="scikit-learn",
        language="python",
        note="This calibrator behind a fitted classifier; below, the same method fitted again "
        "as an estimator.",
        code=_LOAD
        + f"probs = calibrator.probs({scores})\n"
        + "\n"
        + "# or, as one estimator:\n"
        + "from sklearn.frozen import FrozenEstimator\n"
        + "from focalibrate.estimators import FocalCalibratedClassifierCV\n"
        + "\n"
        + "calibrated = FocalCalibratedClassifierCV(\n"
        + f'    FrozenEstimator(classifier), method="{method}"\n'
        + ").fit(X_validation, y_validation)\n"
        + "probs = calibrated.predict_proba(X)\n",
    )
