"""`focalibrate apply`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import Calibrator, GroupedCalibrator, PosteriorRecovery
from focalibrate.cli._open import (
    calibrated_by,
    counted,
    engine_errors,
    open_predictions,
    read_rows,
    steps,
    write_mark,
)
from focalibrate.cli._options import collected, engine_options, force_option, prediction_options
from focalibrate.cli._summary import say, say_what_was_read
from focalibrate.io import (
    FORMATS,
    Predictions,
    Scan,
    is_data_set,
    printable,
    url_of,
    write_probs,
)
from focalibrate.pipeline import PriorShift, apply_to_parts
from focalibrate.pipeline.applying import SpecialRows, calibrated_blocks
from focalibrate.theory import LOSS_FORMS, LossForm, estimate_prior, loss_form

if TYPE_CHECKING:
    from focalibrate.engines import Backend


PER_CLASS = "one per class, as 1,5,2 in order or cat=1,dog=5 by name"


LOSS_PARAMETERS = tuple(
    sorted({name for names in LOSS_FORMS.values() for name in names} - {"alpha"})
)
"""Options that only mean something with --loss; --alpha is one of the focal loss as well."""


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


class Training:
    """How a model was trained, and where it is used: the options that are given."""

    def __init__(self, **options: Any) -> None:
        self.given = {name: value for name, value in options.items() if value is not None}

    @property
    def says_how(self) -> bool:
        """Whether the options describe a training loss, in place of a calibrator file."""
        return bool(self.given.keys() - {"trained_prior", "prior", *LOSS_PARAMETERS})

    def recovery(self, n_classes: int, class_names: tuple[str, ...] | None) -> PosteriorRecovery:
        """Return posterior recovery for a model with these classes."""
        form, alpha = self._form(n_classes, class_names), self.given.get("alpha")
        weight = np.ones(n_classes)
        for name in ("class_weight", "sampling_rate"):
            if name in self.given:
                weight *= self._per_class(name, n_classes, class_names)
        if alpha is not None and form is None:
            if n_classes != 2:
                raise ValueError(
                    f"--alpha is for two classes, but FILE has {n_classes}. Use --class-weight."
                )
            weight *= [1.0 - alpha, alpha]
        return PosteriorRecovery(
            self.given.get("focal", 0.0) if form is None else None,
            loss=form,
            class_weight=tuple(weight.tolist()) if (weight != weight[0]).any() else None,
            label_smoothing=self.given.get("label_smoothing", 0.0),
            class_names=class_names,
            n_classes=n_classes,
        )

    def _form(self, n_classes: int, class_names: tuple[str, ...] | None) -> LossForm | None:
        """Return the loss of --loss with its parameters."""
        names = [name for name in LOSS_PARAMETERS if name in self.given]
        if "loss" not in self.given:
            if names:
                raise ValueError(f"{_flag(names[0])} is a parameter of --loss. Add it.")
            return None
        if "focal" in self.given:
            raise ValueError("--focal and --loss are two training losses: pass one of them.")
        settings: dict[str, Any] = {}
        for name in names:
            if name in ("counts", "frequencies"):
                settings[name] = tuple(self._per_class(name, n_classes, class_names))
                continue
            try:
                settings[name] = float(self.given[name])
            except ValueError:
                raise ValueError(
                    f"{_flag(name)} must be a number, got {self.given[name]!r}."
                ) from None
        if self.given["loss"] == "sigmoid_focal":
            settings["alpha"] = self.given.get("alpha")
        return loss_form(self.given["loss"], **settings)

    def shift(
        self,
        n_classes: int,
        class_names: tuple[str, ...] | None,
        all_probs: Callable[[], Floats] | None,
    ) -> PriorShift | None:
        """Return the requested change of class frequencies; `all_probs` are calibrated."""
        if "prior" not in self.given:
            return None
        is_estimated = self.given["prior"] == "em"
        if is_estimated and all_probs is None:
            raise ValueError(
                "--prior em needs all rows at once, so it cannot work on parts. Estimate the "
                "frequencies on one file first (`focalibrate apply ... --prior em -o one.csv` "
                "prints them) and pass them as --prior."
            )
        if "trained_prior" not in self.given:
            raise ValueError(
                "--prior needs --trained-prior: the class frequencies of the training data."
            )
        old = self._per_class("trained_prior", n_classes, class_names)
        old = old / old.sum()
        if is_estimated and all_probs is not None:
            return PriorShift(old, estimate_prior(all_probs(), old))
        new = self._per_class("prior", n_classes, class_names)
        return PriorShift(old, new / new.sum())

    def _per_class(
        self, option: str, n_classes: int, class_names: tuple[str, ...] | None
    ) -> Floats:
        """Return the numbers of an option, one per class; by name, classes left out have 1."""
        flag, text = _flag(option), self.given[option]
        parts = [part.strip() for part in text.split(",")]
        names, values = [part.rpartition("=")[0].strip() for part in parts], []
        for part in parts:
            try:
                values.append(float(part.rpartition("=")[2]))
            except ValueError:
                raise ValueError(
                    f"{flag} must hold numbers, found {part!r} in {text!r}."
                ) from None
        if not all(np.isfinite(values)) or min(values) <= 0:
            raise ValueError(f"{flag} must hold finite numbers > 0, got {text!r}.")
        if not any(names):
            if len(values) != n_classes:
                raise ValueError(
                    f"{flag} must have {n_classes} numbers, {PER_CLASS}; got {text!r}."
                )
            return np.array(values)
        known = class_names or tuple(map(str, range(n_classes)))
        unknown = [name for name in names if name not in known]
        is_prior = option in ("prior", "trained_prior")
        if unknown or len(set(names)) < len(names) or (is_prior and len(names) < n_classes):
            raise ValueError(
                f"{flag} must name {'every class' if is_prior else 'classes'} of the file once: "
                f"{', '.join(known)}; got {text!r}."
            )
        found = np.ones(n_classes)
        found[[known.index(name) for name in names]] = values
        return found


recovery_options = collected(
    "training",
    [
        click.option("--focal", type=float, help="Exponent of the focal loss in training."),
        click.option(
            "--loss",
            type=click.Choice(tuple(LOSS_FORMS)),
            help="Another training loss, with its parameters as options: "
            + "; ".join(" ".join([name, *map(_flag, LOSS_FORMS[name])]) for name in LOSS_FORMS)
            + ".",
        ),
        *(
            click.option(_flag(name), name, hidden=True, help=f"Parameter {name} of --loss.")
            for name in LOSS_PARAMETERS
        ),
        click.option(
            "--alpha",
            type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
            help="Weight of class 1 in a sigmoid focal loss (class 0 has 1 - alpha).",
        ),
        click.option("--class-weight", help=f"Class weights of the training loss, {PER_CLASS}."),
        click.option(
            "--sampling-rate",
            help=f"Rate at which classes were over- or undersampled, {PER_CLASS}.",
        ),
        click.option(
            "--label-smoothing",
            type=click.FloatRange(0.0, 1.0, max_open=True),
            help="Label smoothing of the training loss.",
        ),
        click.option("--trained-prior", help=f"Class frequencies in training, {PER_CLASS}."),
        click.option(
            "--prior",
            help=f"Class frequencies in FILE, {PER_CLASS}; em: estimate them from FILE. Needs "
            "--trained-prior.",
        ),
    ],
    Training,
)
"""How the model was trained and where it is used."""


SHOWN_GROUPS = 5
"""At most this many unknown groups are named."""


@click.command("apply")
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="[CALIBRATOR] FILE"
)
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="File to write.")
@force_option
@recovery_options
@engine_options("Number of processes that write parts in parallel.  [default: 1]")
@prediction_options
def apply_command(
    paths: tuple[Path, ...],
    options: dict[str, Any],
    training: Training,
    out: Path,
    force: bool,
    backend: "Backend | None",
) -> None:
    """Write calibrated probabilities for FILE. The suffix of -o sets the format.

    CALIBRATOR is a calibrator.json that `focalibrate calibrate` wrote. A model trained with
    focal loss needs none: describe how it was trained (--focal, --alpha, --class-weight,
    --sampling-rate, --label-smoothing), and the effect on its scores is undone. --prior moves
    the result to other class frequencies.

    Ids, labels and all other columns of FILE are kept, so that the result can be joined back.
    Columns are matched to the calibrator's classes by name. A calibrator with groups needs the
    column of the groups; rows of unknown groups use its shared calibrator. FILE is processed in
    blocks, so that a .npy or .safetensors file may be larger than memory. An interrupted run
    leaves no partial file behind.

    Where FILE is a folder, a glob or a URL of parts and -o has no suffix, -o becomes a folder with
    a part of the same name for each, read and written in batches; it may be a URL, too. Parts are
    the unit of work of --workers and --backend dask. After an interruption the same command
    continues where it stopped.

    \b
    Examples:
        focalibrate apply report/calibrator.json new.npz -o calibrated.npz
        focalibrate apply --focal 2 --alpha .25 scores.csv -o probabilities.csv
        focalibrate apply report/calibrator.json s3://bucket/day1 -o s3://bucket/calibrated/day1
        focalibrate apply report/calibrator.json day1 -o day1-calibrated --workers 2
    """
    if "truth" in options:
        raise click.UsageError(
            "--truth must be left out: `apply` gives every detection of FILE a new score, whether "
            "it matches an object or not."
        )
    loaded = _loaded(paths, training)
    names = None if loaded is None else loaded.class_names
    calibrators = () if loaded is None else (loaded,)
    scan = open_predictions(paths[-1], options, calibrators=calibrators, need=False)
    classes = (scan.n_classes, scan.class_names if loaded is None else names)
    chosen = training.recovery(*classes) if loaded is None else loaded
    done = calibrated_by(scan)
    if done is not None:
        raise ValueError(
            f"{scan.source}: was written by `focalibrate apply` ({done}), so its "
            "probabilities are calibrated already. Name the file of the model's own scores."
        )
    if _is_parts_folder(paths[-1], out):
        shift = training.shift(*classes, None)
        what, special = _to_parts(scan, out, chosen, shift, backend=backend, force=force)
    elif backend is not None or url_of(out) is not None:
        raise click.UsageError(
            "--workers, --backend and a URL in -o are for a folder of parts: FILE must be a "
            "folder, a glob or a URL of parts, and -o must have no suffix."
        )
    else:
        given = read_rows(scan, classes_of=names, keep=True)
        say_what_was_read([given])
        shift = training.shift(
            *classes, lambda: np.concatenate(list(calibrated_blocks(chosen, given)))
        )
        what, special = _to_file(given, out, chosen, shift, force=force)
    _say_special_rows(chosen, special)
    words = chosen.describe() if shift is None else f"{chosen.describe()}; {shift.describe()}"
    say(f"Calibrated {what} ({words}) → {printable(str(url_of(out) or out))}")


def _loaded(paths: tuple[Path, ...], training: Training) -> Calibrator | None:
    """Return the calibrator of the command line, or None if the training is described instead."""
    if len(paths) == 2 and not training.says_how:
        return Calibrator.load(paths[0])
    if len(paths) == 1 and training.says_how:
        return None
    if len(paths) == 1:
        raise ValueError(
            "Give a calibrator and a file: `focalibrate apply calibrator.json new.csv -o out.csv` "
            "or say how the model was trained: `focalibrate apply --focal 2 new.csv -o out.csv`."
        )
    found = " ".join(str(path) for path in paths)
    raise ValueError(
        f"Give one file, and either a calibrator or how the model was trained, got {found}. For "
        "several files give their folder, or a pattern in quotes such as 'parts/*.csv'."
    )


def _is_parts_folder(source: Path, out: Path) -> bool:
    """Return whether the parts of `source` are written as parts: `out` then names a folder."""
    suffixes = {suffix.lower() for suffix in out.suffixes}
    return is_data_set(source) and not suffixes & {*FORMATS, ".gz", ".bz2", ".xz"}


def _to_file(
    given: Predictions, out: Path, chosen: Calibrator, shift: PriorShift | None, *, force: bool
) -> tuple[str, SpecialRows]:
    """Write the calibrated probabilities of rows in memory; return what was written, in words."""
    special = SpecialRows()

    def shown() -> Iterator[NDArray[Any]]:
        with steps(f"writing {printable(out.name)}", total=given.n_rows) as bar:
            for block in calibrated_blocks(chosen, given, shift, special):
                yield block
                bar.advance(bar.task_ids[0], len(block))

    def finish(made: Path) -> None:
        write_mark(out, made, chosen.describe())

    write_probs(out, shown(), like=given, force=force, finish=finish)
    return "1 row" if given.n_rows == 1 else f"{given.n_rows:,} rows", special


def _to_parts(
    scan: Scan,
    out: Path,
    chosen: Calibrator,
    shift: PriorShift | None,
    *,
    backend: "Backend | None",
    force: bool,
) -> tuple[str, SpecialRows]:
    """Write those of every part into the folder `out`; return what was written, in words."""
    place = url_of(out) or out
    if any(Path(part.name).absolute().parent == out.absolute() for part in scan.parts):
        raise ValueError(
            f"{out}: is the folder of the parts themselves. Name another with -o: after an "
            "interruption, parts replaced in place could not be told from the model's own."
        )
    say_what_was_read([scan])
    advice = f"Finished parts are in {printable(str(place))}: run the command again."
    with engine_errors(advice), counted("parts") as progress:
        done, special = apply_to_parts(
            scan, place, chosen, shift=shift, backend=backend, force=force, progress=progress
        )
    kept = f", {done.n_kept} were done before" if done.n_kept else ""
    return f"{done.n_rows:,} rows of {done.n_written} parts{kept}", special


def _say_special_rows(chosen: Calibrator, special: SpecialRows) -> None:
    """Print how many rows were clipped, and how many belong to groups that are not known."""
    if special.unknown and isinstance(chosen, GroupedCalibrator):
        unknown = sorted(special.unknown)
        shown = ", ".join(unknown[:SHOWN_GROUPS]) + (", ..." * (len(unknown) > SHOWN_GROUPS))
        text = (
            f"{special.unknown.total()} rows have a {chosen.column} that the calibrator does not "
            f"know ({shown}): they use the shared calibrator."
        )
        say(printable(text))
    if special.n_clipped:
        n, n_rows = special.n_clipped, special.n_rows
        rows = "1 row has" if n == 1 else f"{n:,} of {n_rows:,} rows have"
        say(
            f"{rows} a score that no posterior explains, below what label smoothing or the margin "
            "of the loss allows: set to 0. Many such rows mean that the model was not trained in "
            "this way."
        )
