import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import FocalTemperatureScaling, TemperatureScaling, VectorScaling


@pytest.fixture
def calibrator(tmp_path):
    found = FocalTemperatureScaling(gamma=1.0, temperature=2.5)
    found.save(tmp_path / "c.json")
    return found


def test_probabilities_come_in_the_format_of_the_input(cli, val, examples, calibrator, tmp_path):
    cli("apply", "c.json", "val.npz", "-o", "out.npz")
    with np.load(tmp_path / "out.npz") as data:
        assert_allclose(data["probs"], calibrator.probs(examples.logits), rtol=1e-6)
        assert (data["labels"] == examples.labels).all()


def test_labels_are_not_needed(cli, examples, calibrator, tmp_path):
    np.save(tmp_path / "new.npy", examples.logits)
    cli("apply", "c.json", "new.npy", "--input", "logits", "-o", "out.npy")
    got = np.load(tmp_path / "out.npy")
    assert_allclose(got, calibrator.probs(examples.logits), rtol=1e-6)


def test_nothing_is_overwritten_and_nothing_half_written(cli, val, calibrator, tmp_path):
    (tmp_path / "out.npz").write_text("precious")
    done = cli("apply", "c.json", "val.npz", "-o", "out.npz", ok=False)
    assert done.returncode == 1
    assert (tmp_path / "out.npz").read_text() == "precious"
    cli("apply", "c.json", "val.npz", "-o", "out.npz", "--force")
    names = [".out.npz.calibrated.json", "c.json", "out.npz", "val.npz"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names


def test_an_absent_calibrator(cli, val):
    done = cli("apply", "none.json", "val.npz", "-o", "out.npz", ok=False)
    assert done.returncode == 1
    assert "none.json" in done.stderr


@pytest.fixture
def named(tmp_path):
    """A calibrator of two named classes that gives every class its own temperature."""
    found = VectorScaling(scale=(1.0, 3.0), bias=(0.5, 0.0), class_names=("cat", "dog"))
    found.save(tmp_path / "named.json")
    return found


def test_columns_are_put_in_the_order_of_the_calibrator(cli, tmp_path, named):
    (tmp_path / "a.csv").write_text("id,cat,dog\n7,0.25,0.75\n8,0.5,0.5\n")
    (tmp_path / "b.csv").write_text("id,dog,cat\n7,0.75,0.25\n8,0.5,0.5\n")
    cli("apply", "named.json", "a.csv", "-o", "oa.csv")
    cli("apply", "named.json", "b.csv", "-o", "ob.csv")
    a = (tmp_path / "oa.csv").read_text().splitlines()
    b = (tmp_path / "ob.csv").read_text().splitlines()
    assert (a[0], b[0]) == ("id,prob_cat,prob_dog", "id,prob_dog,prob_cat")
    for x, y in zip(a[1:], b[1:], strict=True):
        i, cat, dog = x.split(",")
        assert y.split(",") == [i, dog, cat]
    expected = named.probs(probs=np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert_allclose([float(x.split(",")[1]) for x in a[1:]], expected[:, 0])


def test_unknown_names_and_other_numbers_of_classes_are_refused(cli, tmp_path, named):
    (tmp_path / "a.csv").write_text("cat,cow\n0.25,0.75\n0.5,0.5\n")
    done = cli("apply", "named.json", "a.csv", "-o", "o.csv", ok=False)
    assert (done.returncode, "cow is not among them" in done.stderr) == (1, True)
    (tmp_path / "b.csv").write_text("cat,dog,cow\n0.25,0.5,0.25\n0.25,0.25,0.5\n")
    done = cli("apply", "named.json", "b.csv", "-o", "o.csv", ok=False)
    assert (done.returncode, "was fitted for 2" in done.stderr) == (1, True)
    VectorScaling(scale=(1.0, 3.0), bias=(0.5, 0.0)).save(tmp_path / "unnamed.json")
    done = cli("apply", "unnamed.json", "b.csv", "-o", "o.csv", ok=False)
    assert (done.returncode, "classes" in done.stderr) == (1, True)
    assert not (tmp_path / "o.csv").exists()


def test_ids_and_other_columns_are_kept(cli, tmp_path, named):
    (tmp_path / "a.csv").write_text("id,cat,dog,city\n007,0.25,0.75,Ulm\n008,0.5,0.5,Bonn\n")
    cli("apply", "named.json", "a.csv", "-o", "o.csv")
    lines = (tmp_path / "o.csv").read_text().splitlines()
    assert lines[0] == "id,prob_cat,prob_dog,city"
    assert [line.split(",")[::3] for line in lines[1:]] == [["007", "Ulm"], ["008", "Bonn"]]


def test_one_column_of_the_positive_class(cli, tmp_path, named):
    (tmp_path / "a.csv").write_text("id,prob_dog\n7,0.75\n8,0.5\n")
    cli("apply", "named.json", "a.csv", "-o", "o.csv")
    expected = named.probs(probs=np.array([[0.25, 0.75], [0.5, 0.5]]))
    lines = (tmp_path / "o.csv").read_text().splitlines()
    assert lines[0] == "id,prob_dog"
    assert_allclose([float(line.split(",")[1]) for line in lines[1:]], expected[:, 1])


@pytest.mark.parametrize(
    ("names", "column"),
    [
        (("ok", "fraud"), "prob_fraud"),
        (("ok", "fraud"), "prob_ok"),
        (("No", "Yes"), "prob_yes"),
        (("No", "Yes"), "prob_churn"),
        (("ok", "fraud"), "prob_spam"),
        (("ok", "fraud"), "prob_xgb"),
    ],
)
@pytest.mark.parametrize("labels", ["", "numbers"])
def test_the_only_column_is_of_the_class_in_its_name(cli, tmp_path, names, column, labels):
    found = VectorScaling(scale=(1.0, 3.0), bias=(0.5, 0.0), class_names=names)
    found.save(tmp_path / "c.json")
    p = np.linspace(0.1, 0.9, 30).round(3)
    own = 1 - p if column == "prob_ok" else p
    cells = [f"{a},{int(i % 3 < 2)}"[: None if labels else -2] for i, a in enumerate(own.tolist())]
    (tmp_path / "a.csv").write_text("\n".join([column + ",label" * bool(labels), *cells]) + "\n")
    done = cli("apply", "c.json", "a.csv", "-o", "o.csv", ok=False)
    if column in ("prob_spam", "prob_xgb"):
        assert (done.returncode, "of fraud, call it so" in done.stderr) == (1, True)
        return
    lines = (tmp_path / "o.csv").read_text().splitlines()[1:]
    expected = found.probs(probs=np.stack([1 - p, p], axis=1))
    at = int(column != "prob_ok")
    assert_allclose([float(line.split(",")[0]) for line in lines], expected[:, at])


def test_exact_zeros_follow_the_calibrators_rule(cli, tmp_path):
    found = VectorScaling(scale=(2.0, 2.0), bias=(0.0, 0.0), zero_mix=0.1)
    found.save(tmp_path / "z.json")
    (tmp_path / "a.csv").write_text("prob_0,prob_1\n0,1\n0.5,0.5\n")
    done = cli("apply", "z.json", "a.csv", "-o", "o.csv")
    assert "1 row has a probability of exactly 0" in done.stdout
    cells = (tmp_path / "o.csv").read_text().splitlines()[1].split(",")
    assert_allclose([float(c) for c in cells], found.probs(probs=np.array([[0.0, 1.0]]))[0])


def test_a_folder_of_parts_becomes_a_folder_of_parts(cli, tmp_path):
    folder = tmp_path / "preds"
    folder.mkdir()
    for i in range(2):
        text = "id,logit_a,logit_b,label\n" + "".join(
            f"0{k},1.50,{k},{'ab'[i]}\n" for k in range(3)
        )
        (folder / f"part-{i}.csv").write_text(text)
    calibrator = tmp_path / "calibrator.json"
    TemperatureScaling(2.0, class_names=("b", "a")).save(calibrator)
    out = tmp_path / "out"
    done = cli("apply", calibrator, folder, "-o", out)
    assert "Calibrated 6 rows of 2 parts" in done.stdout
    lines = (out / "part-1.csv").read_text().splitlines()
    assert lines[0] == "id,prob_a,prob_b,label"
    name, first, second, label = lines[1].split(",")
    assert (name, label) == ("00", "b")
    assert float(first) == pytest.approx(1 / (1 + np.exp(-0.75)))
    assert float(second) == pytest.approx(1 / (1 + np.exp(0.75)))
    again = cli("apply", calibrator, folder, "-o", out)
    assert "0 parts, 2 were done before" in again.stdout
    TemperatureScaling(3.0, class_names=("b", "a")).save(calibrator)
    other = cli("apply", calibrator, folder, "-o", out, ok=False)
    assert other.returncode == 1
    assert "another calibrator" in other.stderr
    cli("apply", calibrator, folder, "-o", tmp_path / "one.csv")
    assert (tmp_path / "one.csv").read_text().splitlines()[1].startswith("00,")
    words = ("--prior", "em", "--trained-prior", "1,1")
    em = cli("apply", calibrator, folder, "-o", out, *words, ok=False)
    assert em.returncode == 1
    assert "--prior em needs all rows at once" in em.stderr


def test_a_calibrator_without_names_says_the_order_of_the_classes(cli, tmp_path):
    VectorScaling(scale=(1.0, 3.0), bias=(0.5, 0.0)).save(tmp_path / "c.json")
    (tmp_path / "a.csv").write_text("id,dog,cat\n7,0.25,0.75\n8,0.5,0.5\n")
    done = cli("apply", "c.json", "a.csv", "-o", "oa.csv")
    assert "classes are taken in the order dog, cat" in done.stderr
    (tmp_path / "b.csv").write_text("id,prob_no\n7,0.25\n8,0.5\n")
    done = cli("apply", "c.json", "b.csv", "-o", "ob.csv", ok=False)
    assert done.returncode == 1
    assert "is the probability of 'no'" in done.stderr
    assert "1 - df['prob_no']" in done.stderr


def test_the_folder_of_a_calibrator_is_answered_with_its_file(cli, val, tmp_path):
    (tmp_path / "report").mkdir()
    TemperatureScaling(2.0).save(tmp_path / "report" / "calibrator.json")
    done = cli("apply", "report", "val.npz", "-o", "out.npz", ok=False)
    assert "Give the name of a file, such as report/calibrator.json." in done.stderr
