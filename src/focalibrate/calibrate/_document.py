"""Files of calibrators: JSON read strictly, with nothing executed, unknown or left out."""

import json
import math
import os
from pathlib import Path
from typing import Any, NoReturn


def read_document(path: str | os.PathLike[str]) -> Any:
    """Return the JSON in `path`; numbers that are not finite and repeated fields are refused."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"is not JSON ({error}). A calibrator is a file that its `save` or `focalibrate "
            "calibrate` wrote."
        ) from error
    except RecursionError:
        raise ValueError("brackets are nested too deeply.") from None


def check_version(document: dict[str, Any], *, form: str, version: int) -> None:
    """Raise `ValueError` unless the document is of this format and version."""
    if document["format"] != form:
        raise ValueError(f"`format` must be {form!r}, got {document['format']!r}.")
    if type(document["version"]) is not int or document["version"] != version:  # no 1.0 or true
        raise ValueError(
            f"`version` must be {version}, got {document['version']!r}. Save the calibrator "
            "again, or read it with the release that wrote it."
        )


def in_file(path: str | os.PathLike[str], error: ValueError) -> ValueError:
    """Return the error with the name of the file in front, and not too long."""
    text = str(error)  # which may contain a name from the file, of any length
    return ValueError(f"{path}: {text[:1000]}{'...' * (len(text) > 1000)}")


def check_keys(
    document: Any, names: tuple[str, ...], *, what: str, optional: tuple[str, ...] = ()
) -> None:
    """Raise `ValueError` unless the JSON object has the fields `names`, and no unknown one."""
    if not isinstance(document, dict):
        raise ValueError(f"The {what} must be a JSON object, got {type(document).__name__}.")
    missing = [name for name in names if name not in document]
    extra = [name for name in document if name not in (*names, *optional)]
    if missing or extra:
        raise ValueError(
            f"The {what} must have exactly the fields {list(names)}; missing {missing}, "
            f"not known {extra}."
        )


def frozen_numbers(value: Any, name: str) -> Any:
    """Return numbers as floats and lists as tuples, and refuse anything else."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen_numbers(item, name) for item in value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_finite(value):
        raise ValueError(f"`{name}` must hold finite numbers only, got {value!r:.80}.")
    return float(value)


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"numbers must be finite, found {constant}.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("every field must appear once, but one is repeated.")
    return document
