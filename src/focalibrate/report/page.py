"""One HTML file from what a page shows, and the code to copy from it."""

import base64
import hashlib
import html
import json
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from focalibrate._atomic import atomic_path
from focalibrate.calibrate import (
    Calibrator,
    GroupedCalibrator,
    PosteriorRecovery,
    TemperatureScaling,
)
from focalibrate.io import ScoreKind

SCHEMA_VERSION = 3
"""Version of the JSON inside the page."""


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file that was read."""

    name: str
    sha256: str
    role: str = ""
    """what it was used for, such as ``"fitted on"``"""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a page was made, as given: the same arguments give the same page."""

    command: str
    version: str
    """of focalibrate"""
    seed: int
    made_at: str = ""
    """date, as it is to be shown; empty: none is shown"""
    files: tuple[SourceFile, ...] = ()


@dataclass(frozen=True, eq=False)
class PageData:
    """The document that a page shows."""

    document: dict[str, Any]
    """JSON: finite numbers, text, lists"""
    script: str | None = None
    """what draws it; None: the script of this package"""

    def to_json(self) -> str:
        """Return the document as compact JSON."""
        return json.dumps(
            self.document, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )


_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="focalibrate {version}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="app"><noscript><p>{verdict}</p><p>This page draws its charts with JavaScript, which is \
switched off here.</p></noscript></div>
<script type="application/json" id="focalibrate-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def escape_json(text: str) -> str:
    r"""Return JSON that is safe inside a script element: no ``<``, no ``&``, no line breaks."""
    return text.translate(_ESCAPES)


def render_report(data: PageData) -> str:
    """Return the page as text: template, bundle and data, with a policy that allows no request."""
    static = files("focalibrate.report") / "static"
    script = data.script or (static / "report.js").read_text(encoding="utf-8")
    style = (static / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    document = data.document
    return _PAGE.format(
        policy=policy,
        version=html.escape(document["provenance"]["version"]),
        title=html.escape(document["title"]),
        verdict=html.escape(_words(document["verdict"])),
        style=style,
        script=script,
        data=escape_json(data.to_json()),
    )


def _words(verdict: str | dict[str, str]) -> str:
    """Return the verdict as text; that of a training run is a sentence."""
    return verdict if isinstance(verdict, str) else f"{verdict['headline']} {verdict['gain']}"


def write_report(path: str | os.PathLike[str], data: PageData) -> None:
    """Write the page to `path`, whole or not at all.

    Args:
        path: file to write; one that exists is replaced.
        data: what the page shows.
    """
    text = render_report(data)
    with atomic_path(Path(path), force=True) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@dataclass(frozen=True)
class Snippet:
    """A few lines of code and what they are for."""

    title: str
    note: str
    code: str
    language: str = "python"


MAX_WRITTEN = 20
"""With more classes than this, weights are read from the file instead of written out."""

_LOAD = """\
from focalibrate import Calibrator

calibrator = Calibrator.load("calibrator.json")
"""
_APPLY = "focalibrate apply calibrator.json predictions.csv -o calibrated.csv\n"
_TORCH = """
from focalibrate.nn import CalibratedModel

calibrated = CalibratedModel(model, calibrator)  # a torch.nn.Module
probs = calibrated(batch)
"""
_ATTACH = """
from focalibrate.deploy import attach_to_onnx

attach_to_onnx("model.onnx", calibrator, "calibrated.onnx")  # adds the output "probs"
"""
_ESTIMATOR = """
# or, as one estimator:
from sklearn.frozen import FrozenEstimator
from focalibrate.estimators import FocalCalibratedClassifierCV

calibrated = FocalCalibratedClassifierCV(
    FrozenEstimator(classifier), method="{method}"
).fit(X_validation, y_validation)
probs = calibrated.predict_proba(X)
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
    given = "logits" if is_logits else "probs=model_probs"
    if isinstance(calibrator, GroupedCalibrator):
        return _by_group(calibrator, given)
    words, onnx, noted = (
        (
            ("Probabilities", "probabilities", "probs=classifier.predict_proba(X)"),
            '\ncalibrator.to_onnx("calibrator.onnx")  # takes probabilities\n',
            "Runs in any ONNX runtime, without Python.",
        )
        if not is_logits
        else (
            ("Logits", "logits", "logits=classifier.decision_function(X)"),
            _ATTACH,
            "The classifier and its calibrator in one graph, for any ONNX runtime.",
        )
    )
    return [
        Snippet(
            "Python",
            f"{words[0]} [N, K] of NumPy, torch or JAX in, probabilities of the same library out.",
            f"{_LOAD}probs = calibrator.probs({given})\n",
        ),
        *_without_focalibrate(calibrator, given),
        Snippet(
            "torch",
            f"`model` returns {words[1]}. Works with torch.compile and torch.export.",
            _LOAD + _TORCH,
        ),
        Snippet("ONNX", noted, _LOAD + onnx),
        Snippet(
            "scikit-learn",
            "This calibrator behind a fitted classifier; below, the same method fitted again as "
            "an estimator.",
            f"{_LOAD}probs = calibrator.probs({words[2]})\n{_ESTIMATOR.format(method=method)}",
        ),
        Snippet(
            "Command line",
            "Any file of predictions that `focalibrate calibrate` reads.",
            _APPLY,
            "sh",
        ),
    ]


def _by_group(calibrator: GroupedCalibrator, given: str) -> list[Snippet]:
    """Return how to use a calibrator that needs the group of each row."""
    column = calibrator.column
    first = calibrator.own_groups[0] if calibrator.own_groups else ""
    return [
        Snippet(
            "Python",
            f"Needs the column {column!r} of every row. Groups that were not seen use the shared "
            "calibrator.",
            f"{_LOAD}probs = calibrator.probs({given}, groups=frame[{column!r}])\n",
        ),
        Snippet(
            "torch, ONNX",
            "A module or graph of the scores alone cannot know the group: export one for each "
            "group that has its own, and the shared one.",
            f"{_LOAD}module = calibrator.of_group({first!r}).to_torch()\n"
            "rest = calibrator.shared.to_torch()\n",
        ),
        Snippet("Command line", f"The file must have the column {column!r}.", _APPLY, "sh"),
    ]


def _without_focalibrate(calibrator: Calibrator, given: str) -> list[Snippet]:
    if isinstance(calibrator, PosteriorRecovery):
        return [_recovery(calibrator, given)] if (calibrator.n_classes or 0) <= MAX_WRITTEN else []
    if not isinstance(calibrator, TemperatureScaling):
        return []
    mix = calibrator.zero_mix
    if given != "logits":
        mixed = f"{1 - mix!r} * model_probs + {mix!r} / model_probs.shape[-1]"
        given = f"np.log({mixed if mix else 'np.maximum(model_probs, 2e-38)'})"
    return [
        Snippet(
            "NumPy only",
            "Temperature scaling is one division: nothing has to be installed.",
            "import numpy as np\n"
            "\n"
            f"z = {given} / {calibrator.temperature!r}\n"
            "z = np.exp(z - z.max(axis=-1, keepdims=True))\n"
            "probs = z / z.sum(axis=-1, keepdims=True)\n",
        )
    ]


def _recovery(calibrator: PosteriorRecovery, given: str) -> Snippet:
    """Return posterior recovery from its settings alone, which are those of the training."""
    form = "" if calibrator.loss is None else "from focalibrate.theory import loss_form\n"
    return Snippet(
        "Without a file",
        "Nothing was fitted: these settings say how the model was trained (exponent, class "
        "weights or α, label smoothing) and where it is used (class frequencies).",
        f"from focalibrate import PosteriorRecovery\n{form}\n"
        f"calibrator = {calibrator!r}\n"
        f"probs = calibrator.probs({given})\n"
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
