"""Batches of any loader, and outputs of any model."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

LABEL_KEYS = ("labels", "label", "label_ids")
"""Names of the class indices in data sets of Hugging Face."""


def to_device(inputs: Any, device: torch.device) -> Any:
    """Return `inputs` with every tensor in tuples, lists and mappings on `device`."""
    if isinstance(inputs, Tensor):
        return inputs.to(device)
    if isinstance(inputs, Mapping):
        return {key: to_device(value, device) for key, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return type(inputs)(to_device(value, device) for value in inputs)
    return inputs


def spread(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and named arguments of a model: a tuple or mapping holds several."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put `model` in eval mode, and each of its modules back as it was."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def read_batch(batch: Any, *, labels: str | None) -> tuple[Any, Tensor, Tensor | None]:
    """Return inputs, labels and weights of a batch, which is such a tuple or a mapping.

    Args:
        batch: what the loader yields. From a mapping the labels are taken out, so that a model
            of Hugging Face computes no loss of its own.
        labels: key of the labels in a mapping; one of `LABEL_KEYS` when None.
    """
    if isinstance(batch, Mapping):
        keys = LABEL_KEYS if labels is None else (labels,)
        key = next((key for key in keys if key in batch), None)
        if key is None:
            raise ValueError(
                f"a batch must have its labels under {' or '.join(map(repr, keys))}, found the "
                f"keys {', '.join(map(repr, batch))}. Name the key: `collect(…, labels=…)`."
            )
        rest = {name: value for name, value in batch.items() if name != key}
        return rest, torch.as_tensor(batch[key]), None
    if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
        found = f"{len(batch)} parts" if isinstance(batch, (tuple, list)) else type(batch).__name__
        raise ValueError(
            "`loader` must yield (inputs, labels), (inputs, labels, weights) or a mapping with "
            f"labels, got {found}."
        )
    return batch[0], batch[1], batch[2] if len(batch) == 3 else None


def read_logits(output: Any, labels: Tensor, *, key: str, is_mapping: bool) -> Tensor:
    """Return the logits in a model's output, with classes on axis 1.

    Args:
        output: a tensor; a mapping (`ModelOutput`) with `key`; or a tuple that begins with them.
        labels: labels of the batch.
        key: key of the logits in a mapping.
        is_mapping: whether the batch was a mapping. Models that take such batches have classes
            last where each token has a label.
    """
    if isinstance(output, Mapping):
        if key not in output:
            raise ValueError(
                f"the model's output must have {key!r}, found {', '.join(map(repr, output))}. "
                "Name the key: `collect(…, logits=…)`."
            )
        output = output[key]
    elif isinstance(output, (tuple, list)):
        output = output[0]
    if not isinstance(output, Tensor):
        raise ValueError(f"the model must return logits, got {type(output).__name__}.")
    is_class_last = output.ndim == 3 and output.shape[:-1] == labels.shape
    is_class_second = output.ndim == 3 and (output.shape[0], output.shape[2]) == labels.shape
    if is_class_last and (is_mapping or not is_class_second):
        return output.movedim(-1, 1)
    return output


def outputs_of(
    model: nn.Module, loader: Iterable[Any], *, labels: str | None, logits: str
) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Yield logits, labels and weights of every batch, from the model in evaluation mode."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with evaluating(model), torch.no_grad():
        for batch in loader:
            inputs, targets, weights = to_device(read_batch(batch, labels=labels), device)
            positional, named = spread(inputs)
            output = model(*positional, **named)
            is_mapping = isinstance(batch, Mapping)
            yield read_logits(output, targets, key=logits, is_mapping=is_mapping), targets, weights
