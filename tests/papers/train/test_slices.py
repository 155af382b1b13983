"""Slices of 20 Newsgroups and of the treebank, as files in the form they are distributed in.

The text is generated here; it is read by the readers and used for training.
"""

from dataclasses import replace

import numpy as np
import pytest

from focalibrate_papers.datasets.newsgroups import DocumentCounts, read_newsgroups
from focalibrate_papers.datasets.sentiment import read_sentiment
from focalibrate_papers.train import Recipe, train

COMMON = [f"word{i}" for i in range(30)]
GROUPS = [f"talk.topic{k:02d}" for k in range(20)]
TONES = {0: "awful", 1: "dull", 3: "nice", 4: "superb"}
COUNTS = {"train": 240, "dev": 60, "test": 120}

NEWS = Recipe(
    dataset="20newsgroups",
    model="text_cnn",
    size={"width": 64, "n_dimensions": 32},
    gamma="flsd-53",
    optimiser="adam",
    lr=0.003,
    epochs=6,
    batch=20,
)
TREES = Recipe(
    dataset="sst_binary",
    model="tree_lstm",
    size={"width": 12, "n_dimensions": 12},
    optimiser="adagrad",
    lr=0.1,
    epochs=6,
    batch=24,
)


def write_groups(folder, rng, per_group):
    """Write messages, one file each; the header gives the group away and must not be read."""
    for k, group in enumerate(GROUPS):
        (folder / group).mkdir(parents=True)
        for i in range(per_group):
            words = [*rng.choice(COMMON, size=6), *[f"theme{k}"] * 4, *[f"thing{k}"] * 4]
            body = " ".join(rng.permutation(words))
            text = f"Newsgroups: {group}\nSubject: leak{k}\n\n{body} caf\xe9\n"
            (folder / group / str(51_000 + i)).write_bytes(text.encode("latin-1"))


@pytest.mark.slow
@pytest.mark.parametrize("divided", [False, True])
def test_a_slice_of_20_newsgroups_is_read_and_learnt(tmp_path, divided):
    rng = np.random.default_rng(0)
    if divided:
        write_groups(tmp_path / "20news-bydate-train", rng, 20)
        write_groups(tmp_path / "20news-bydate-test", rng, 5)
    else:
        write_groups(tmp_path / "20_newsgroups", rng, 25)
    sizes = DocumentCounts(whole=(500,), train=400, test=100, n_validation=60, n_test=100)
    data = read_newsgroups(tmp_path, 0, sizes=sizes)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [340, 60, 100]
    assert not any(word.startswith("leak") for word in data.words)
    if not divided:
        run = train(NEWS, out=tmp_path / "run", dataset=data)
        assert run.dynamics.arrays["test_error"][-1] < 0.3  # 0.95 by guessing


def bracketed(rng, words):
    """Return a tree of the words as a line, and its label: that of its only word with a
    sentiment."""
    if len(words) == 1:
        (word,) = words
        label = next((tone for tone, name in TONES.items() if name == word), 2)
        return f"({label} {word})", label
    cut = int(rng.integers(1, len(words)))
    (left, a), (right, b) = bracketed(rng, words[:cut]), bracketed(rng, words[cut:])
    label = a if b == 2 else b
    return f"({label} {left} {right})", label


def write_trees(folder, rng):
    folder.mkdir()
    for stem, count in COUNTS.items():
        lines = []
        for _ in range(count):
            words = [str(word) for word in rng.choice(COMMON, size=int(rng.integers(2, 8)))]
            tone = int(rng.choice([0, 1, 2, 3, 4]))
            if tone != 2:
                words[int(rng.integers(len(words)))] = TONES[tone]
            lines.append(bracketed(rng, words)[0])
        (folder / f"{stem}.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_a_slice_of_the_treebank_is_read_and_learnt(tmp_path):
    write_trees(tmp_path / "trees", np.random.default_rng(0))
    data = read_sentiment("sst_binary", tmp_path, 0, counts=COUNTS)
    assert 150 < len(data.train) < 240  # without the neutral sentences
    runs = [
        train(replace(TREES, gamma=gamma), out=tmp_path / str(gamma), dataset=data)
        for gamma in (0.0, 5.0)
    ]
    for run in runs:
        errors = run.dynamics.arrays["test_error"]
        assert errors[-1] < 0.1
    plain, focal = (run.dynamics.arrays["test_entropy"][-1] for run in runs)
    assert focal > plain  # the larger exponent leaves the network less sure


@pytest.mark.slow
def test_a_slice_with_five_classes_is_read_and_learnt(tmp_path):
    write_trees(tmp_path / "trees", np.random.default_rng(1))
    data = read_sentiment("sst_fine", tmp_path, 0, counts=COUNTS)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [240, 60, 120]
    recipe = replace(TREES, dataset="sst_fine", gamma="fls-532", epochs=8)
    errors = train(recipe, out=tmp_path / "run", dataset=data).dynamics.arrays["test_error"]
    assert errors[-1] < 0.4  # 0.8 by guessing
