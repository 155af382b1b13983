"""How a model was trained, from the command line: focal loss, weights, smoothing, frequencies."""

from collections.abc import Callable
from typing import Any

import click
import numpy as np

from focalibrate._array import Floats
from focalibrate.calibrate import PosteriorRecovery
from focalibrate.cli._options import collected
from focalibrate.pipeline import PriorShift
from focalibrate.theory import LOSS_FORMS, LossForm, estimate_prior, loss_form

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
