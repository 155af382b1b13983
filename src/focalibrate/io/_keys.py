"""Which named array of a file holds the scores, and which the labels."""

from collections.abc import Collection
from pathlib import Path

from focalibrate.io._error import PredictionFileError, fault, how, listing
from focalibrate.io._table import Request
from focalibrate.io.predictions import Kind

KINDS: tuple[Kind, Kind] = ("logits", "probs")


def choose_scores(names: Collection[str], request: Request) -> tuple[str, Kind]:
    """Return the name of the scores among `names`, and their kind.

    Keys that the caller names come before ``logits`` and ``probs``. Where both kinds
    are there, logits are taken unless `request.input` says otherwise.
    """
    found = _candidates(names, request)
    if request.input is not None:
        if request.input not in found:
            raise _missing(names, request, wanted=(request.input,))
        return found[request.input], request.input
    for kind in KINDS:
        if kind in found:
            return found[kind], kind
    raise _missing(names, request, wanted=KINDS)


def _candidates(names: Collection[str], request: Request) -> dict[Kind, str]:
    given: dict[Kind, str | None] = {"logits": request.logits_key, "probs": request.probs_key}
    if not any(given.values()):
        return {kind: kind for kind in KINDS if kind in names}
    for kind, key in given.items():
        if key is not None and key not in names:
            raise fault(
                request.path,
                f"`{kind}_key` must name an array of the file, got {key!r}; "
                f"it holds {_shown(names)}.",
            )
    return {kind: key for kind, key in given.items() if key is not None}


def choose_labels(names: Collection[str], request: Request) -> str | None:
    """Return the name of the labels among `names`, or None where there are none to read."""
    if request.other_labels:
        return None
    if request.labels_key is not None:
        if request.labels_key not in names:
            raise fault(
                request.path,
                f"`labels_key` must name an array of the file, got {request.labels_key!r}; "
                f"it holds {_shown(names)}.",
            )
        return request.labels_key
    if "labels" in names:
        return "labels"
    if request.need_labels:
        raise no_labels(request.path, names)
    return None


def no_labels(path: Path, names: Collection[str]) -> PredictionFileError:
    """Return the error for a file whose labels are needed and cannot be found by name."""
    likely = [name for name in names if "label" in name.lower() or name in ("y", "target")]
    step = " or ".join(how("labels_key", name) for name in likely[:2]) or (
        "`labels_path='labels.npy'` (command line: --labels labels.npy)"
    )
    return fault(path, f"has no array `labels`; it holds {_shown(names)}. Pass {step}.")


def _missing(
    names: Collection[str], request: Request, *, wanted: tuple[Kind, ...]
) -> PredictionFileError:
    arrays = " nor ".join(f"`{kind}`" for kind in wanted)
    neither = "neither " if len(wanted) > 1 else "no "
    likely = [(kind, name) for kind in wanted for name in names if kind in name.lower()]
    if not likely:
        other = [name for name in names if "label" not in name.lower()]
        likely = [(kind, name) for kind in wanted for name in other[:1]]
    step = " or ".join(how(f"{kind}_key", name) for kind, name in likely[:3])
    return fault(
        request.path,
        f"holds {neither}{arrays}, only {_shown(names)}. Say which array is meant, and that it "
        f"holds {' or '.join(wanted)}: {step or 'write the file with np.savez(..., logits=...)'}.",
    )


def _shown(names: Collection[str]) -> str:
    return listing([f"`{name}`" for name in names]) if names else "no arrays"
