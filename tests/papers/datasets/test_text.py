import gzip
import json
import lzma

import numpy as np
import pytest

from focalibrate_papers.datasets import DataSetError, load, newsgroups, sentiment
from focalibrate_papers.datasets.newsgroups import DocumentCounts, read_newsgroups
from focalibrate_papers.datasets.words import (
    as_matrix,
    encode,
    most_frequent,
    numbers,
    read_glove,
    tokenise,
)


def test_words():
    assert tokenise("Don't PANIC -- it's 42_b!") == ["don't", "panic", "it's", "42", "b"]
    assert tokenise("") == []
    assert most_frequent([["b", "a"], ["b", "c"]], n_words=2) == ("<pad>", "<unk>", "b", "a")


def test_sentences_are_cut_and_padded():
    tokens = encode([["a", "z"], [], ["b", "a", "a", "b"]], numbers(("", "", "a", "b")), longest=3)
    assert tokens.ids.tolist() == [[2, 1, 0], [0, 0, 0], [3, 2, 2]]
    assert tokens.lengths.tolist() == [2, 0, 3]
    assert tokens.ids.dtype == np.int32
    assert tokens[np.array([2])].ids.tolist() == [[3, 2, 2]]


def test_glove_text(tmp_path):
    path = tmp_path / "glove.6B.100d.txt"
    path.write_text("the 0.5 -1\n. . 1 2\nof 3 4\n")
    vectors = read_glove(path)
    assert vectors["the"].tolist() == [0.5, -1.0]
    assert vectors[". ."].tolist() == [1.0, 2.0]  # a word with a space, as in the 840B file
    assert set(read_glove(path, {"of"})) == {"of"}
    matrix = as_matrix(("<pad>", "<unk>", "of"), vectors, seed=0)
    assert matrix[0].tolist() == [0, 0]
    assert 0 < np.abs(matrix[1]).max() < 0.05
    assert matrix[2].tolist() == [3, 4]
    path.write_text("the 0.5 -1\nof 3\n")
    with pytest.raises(DataSetError, match=r"line 2 must hold a word and 2 numbers, found 1"):
        read_glove(path)
    path.write_text("the 0.5 -1\nof 3 x\n")
    with pytest.raises(DataSetError, match=r"line 2: could not convert"):
        read_glove(path)


GROUPS = [f"group{k:02d}" for k in range(20)]


def news(k, i):
    return f"From: someone\nNewsgroups: {GROUPS[k]}\n\nbody of topic{k} number {i}\n"


SMALL = DocumentCounts(whole=(80,), train=60, test=20, n_validation=20, n_test=20)


def write_folders(folder, per_class):
    for k, name in enumerate(GROUPS):
        (folder / name).mkdir(parents=True)
        for i in range(per_class):
            (folder / name / str(1000 + i)).write_text(news(k, i) + "\xe9", encoding="latin-1")


def check_news(data):
    assert (data.kind, data.n_classes, len(data.train), len(data.validation)) == (
        "text",
        20,
        40,
        20,
    )
    assert len(data.test) == 20
    assert data.class_names == tuple(GROUPS)
    assert np.bincount(data.train.labels).tolist() == [2] * 20
    assert "someone" not in data.words  # headers name the group
    first = [data.words[i] for i in data.train.inputs.ids[0][:3]]
    assert first == ["body", "of", f"topic{data.train.labels[0]}"]


def test_newsgroups_undivided_are_split_as_in_the_paper(tmp_path):
    write_folders(tmp_path / "20_newsgroups", 4)
    check_news(read_newsgroups(tmp_path, 0, sizes=SMALL))


def test_newsgroups_by_date_keep_their_test(tmp_path):
    write_folders(tmp_path / "20news-bydate-train", 3)
    write_folders(tmp_path / "20news-bydate-test", 1)
    data = read_newsgroups(tmp_path, 0, sizes=SMALL)
    check_news(data)
    assert data.vectors is None


@pytest.mark.parametrize("pack", [None, gzip.compress, lzma.compress])
def test_newsgroups_in_lines(tmp_path, pack):
    for stem, n in (("train", 3), ("test", 1)):
        lines = [json.dumps({"label": k, "text": news(k, i)}) for k in range(20) for i in range(n)]
        content = ("\n".join(lines) + "\n").encode()
        suffix = {None: "", gzip.compress: ".gz", lzma.compress: ".xz"}[pack]
        path = tmp_path / f"20news_bydate_{stem}.jsonl{suffix}"
        path.write_bytes(pack(content) if pack else content)
    (tmp_path / "20news_groups.json").write_text(json.dumps(GROUPS))
    (tmp_path / "glove.6B.100d.txt").write_text("body 1 2 3\n")
    data = read_newsgroups(tmp_path, 0, sizes=SMALL)
    check_news(data)
    assert data.vectors[data.words.index("body")].tolist() == [1, 2, 3]


def test_bad_newsgroups(tmp_path):
    path = tmp_path / "20news_bydate_train.jsonl"
    path.write_text('{"label": 3, "text": "a"}\n{"label": 3}\n')
    with pytest.raises(DataSetError, match=r"line 2 must be a JSON object with text and label"):
        read_newsgroups(tmp_path, 0, sizes=SMALL)
    path.write_text('{"label": 20, "text": "a"}\n')
    with pytest.raises(DataSetError, match=r"label must be in 0\.\.19, found 20 in line 1"):
        read_newsgroups(tmp_path, 0, sizes=SMALL)
    path.write_text('{"label": 2, "text": "a"}\n')
    with pytest.raises(DataSetError, match=r"must hold 60 documents, found 1"):
        read_newsgroups(tmp_path, 0, sizes=SMALL)
    (tmp_path / "20_newsgroups" / "alt.atheism").mkdir(parents=True)
    with pytest.raises(DataSetError, match=r"must hold 20 folders of newsgroups, found 1"):
        read_newsgroups(tmp_path, 0, sizes=SMALL)


def test_a_slice_is_no_20_newsgroups(tmp_path):
    write_folders(tmp_path / "20_newsgroups", 4)
    with pytest.raises(DataSetError, match=r"must hold 19997 or 18828 documents, found 80"):
        load("20newsgroups", data=tmp_path)


def test_a_text_without_header_is_kept_whole():
    assert newsgroups.without_header("no header") == "no header"
    assert newsgroups.without_header("\n\nbody") == "\n\nbody"
    assert newsgroups.without_header("A: b\n\nbody\n\nmore") == "body\n\nmore"


def test_a_tree_is_parsed_children_first():
    words, tree = sentiment.parse_tree("(3 (2 It) (4 (2 -LRB-) (4 Co-op\\/Bank)))")
    assert words == ["it", "(", "co-op/bank"]
    assert tree.words.tolist() == [0, 1, 2, -1, -1]
    assert tree.left.tolist() == [-1, -1, -1, 1, 0]
    assert tree.right.tolist() == [-1, -1, -1, 2, 3]
    assert tree.labels.tolist() == [2, 2, 4, 4, 3]
    assert sentiment.parse_tree("(2 8\xa01\\/2)")[0] == ["8\xa01/2"]
    _, unary = sentiment.parse_tree("(1 (3 (2 (2 a))))")
    assert unary.labels.tolist() == [1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(3 (2 a) (2 b)", "one closed tree"),
        ("(3 a))", "a bracket closes outside every bracket"),
        ("(3 (2 a) (2 b) (2 c))", "one word or two children, found 3"),
        ("(3 )", "one word or two children, found 0"),
        ("(3 a b)", "one word or two children, found 2"),
        ("(3 a (2 b))", "one word or two children, found 2"),
        ("(3 (2 a) b)", "one word or two children, found 2"),
        ("(7 a)", "a label must be 0 to 4, found '7'"),
        ("(", "a label must be 0 to 4, found ''"),
        ("a", "'a' is outside every bracket"),
        ("(1 a) (2 b)", "one closed tree"),
    ],
)
def test_bad_trees_name_their_line(tmp_path, line, message):
    path = tmp_path / "train.txt"
    path.write_text(f"(2 fine)\n{line}\n")
    with pytest.raises(DataSetError, match=rf"train\.txt: line 2: .*{message}"):
        sentiment.read_trees(path)


@pytest.mark.parametrize("packed", [True, False])
def test_the_treebank(tmp_path, packed):
    counts = {"train": 3, "dev": 1, "test": 1}
    (tmp_path / "trees").mkdir()
    content = {
        "train": "(4 (2 Good) (2 film))\n(2 (2 A) (2 film))\n(0 (1 Bad) (2 film))\n",
        "dev": "(3 (2 Nice) (2 plot))\n",
        "test": "(1 (1 Bad) (2 zzz))\n",
    }
    for stem, text in content.items():
        path = tmp_path / "trees" / f"{stem}.txt"
        if packed:
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
    (tmp_path / "glove.6B.100d.txt").write_text("nice 1 2\nbad 3 4\n")
    with pytest.raises(DataSetError, match=r"must hold 8544 sentences, found 3"):
        load("sst_binary", data=tmp_path)
    data = sentiment.read_sentiment(tmp_path, 0, counts=counts)
    assert (data.n_classes, len(data.train), data.kind) == (2, 2, "trees")
    assert data.train.labels.tolist() == [1, 0]
    assert data.class_names == ("negative", "positive")
    assert data.train.inputs[1].labels.tolist() == [0, -1, 0]
    # A word that train lacks is known where it has a vector.
    assert data.words == ("<pad>", "<unk>", "bad", "film", "good", "nice")
    assert data.validation.inputs[0].words.tolist() == [5, 1, -1]
    assert data.vectors[2].tolist() == [3, 4]


@pytest.mark.slow
def test_the_real_treebank(shared):
    data = load("sst_binary", data=shared / "data")
    assert (len(data.train), len(data.validation), len(data.test)) == (6920, 872, 1821)


@pytest.mark.slow
def test_the_real_newsgroups(shared):
    data = load("20newsgroups", data=shared / "data", fraction=0.1)
    assert (len(data.train), len(data.validation), len(data.test)) == (1041, 90, 7532)
    assert data.vectors is None  # the folder has no GloVe file
    assert "no GloVe file found" in data.describe()
    assert data.class_names[0] == "alt.atheism"
    assert (data.train.inputs.lengths <= 1000).all()
