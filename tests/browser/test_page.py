"""The page in a real browser: Debian's Chromium, driven by frontend/browser/observe.mjs."""

from xml.etree import ElementTree

import pytest

PAGES = ["k2", "k3", "k1000"]
FOCAL = ["k3", "k1000"]
"""Where gammas and temperatures can be tried."""


def number(text):
    """Return the first number of a text such as "ECE 2.95 %"; percentages become fractions."""
    value = text.replace("\u2212", "-").replace("\u202f", " ").split("%")[0].split()[-1]
    return float(value) / 100 if "%" in text else float(value)


@pytest.fixture(scope="module", params=PAGES)
def page(request, look):
    return look(request.param)


@pytest.fixture(scope="module", params=FOCAL)
def focal(request, look):
    return look(request.param)


def test_it_draws_everything_without_a_word_on_the_console(page):
    want, seen = page
    assert seen["console"] == []
    assert seen["charts"] >= 7
    assert seen["rows"] == len(want["labels"])
    starts = ("Probabilities of malignant are too extreme", "The model is overconfident: its")
    assert seen["headline"].startswith(starts)


def test_it_asks_for_nothing_but_itself(page):
    _, seen = page
    assert len(seen["requests"]) == 1
    assert seen["requests"][0].startswith("file:")


def test_its_policy_forbids_what_it_does_not_do(page):
    _, seen = page
    assert seen["fetch"] == "connect-src"


def test_the_sliders_move_the_numbers_to_what_python_gives(focal):
    want, seen = focal
    for point, shown in zip(want["live"], seen["live"], strict=True):
        for name, value in point.items():
            rounding = 6e-4 if name == "s99" else 6e-5
            scale = max(1.0, value) if name == "nll" else 1.0
            assert number(shown[name]) == pytest.approx(value, abs=1e-3 * scale + rounding), name


def test_presets_and_reset_set_both_sliders(focal):
    want, seen = focal
    assert seen["reset"] == [0, 1]
    assert seen["presets"]["temperature"] == [0, pytest.approx(want["temperature"], abs=5.1e-4)]
    assert seen["presets"]["posterior_recovery"] == [2, 1]


def test_the_sliders_obey_the_keyboard(focal):
    _, seen = focal
    assert seen["keys"] == [0.01, 1.01]


def test_a_click_on_the_heat_map_sets_the_sliders(focal):
    _, seen = focal
    gamma, temperature = seen["clicked"]["parameters"]
    assert -0.5 < gamma < 5.0
    assert temperature > 0.05
    assert seen["marker"] == pytest.approx([0.6, 0.4], abs=0.01)
    assert number(seen["clicked"]["ece"]) != number(seen["live"][-1]["ece"])


def test_the_heat_map_obeys_the_keyboard(focal):
    want, seen = focal
    steps = [(high - low) for low, high in want["grid"]]
    moved = [b - a for a, b in zip(seen["clicked"]["parameters"], seen["moved"], strict=True)]
    assert moved == pytest.approx(steps, abs=2e-3)
    assert seen["optimum"] == pytest.approx(want["optimum"], abs=1e-3)


def test_diagrams_follow_bins_and_classes(page):
    want, seen = page
    for value, shown in zip(want["diagrams"], seen["diagrams"], strict=True):
        for which in ("before", "after"):
            assert number(shown[which]) == pytest.approx(value[which], abs=1e-3)


def test_two_classes_show_the_probability_of_the_second_from_0_to_1(look):
    _, seen = look("k2")
    assert seen["start"]["klass"] == "1"
    assert "probability (%)" in seen["start"]["x"]
    assert look("k3")[1]["start"]["klass"] == ""


def test_costs_give_the_threshold_and_what_it_costs(page):
    want, seen = page
    assert [number(found["threshold"]) for found in seen["costs"]] == [0.5, 0.1, 0.833]
    for value, shown in zip(want["costs"], seen["costs"], strict=True):
        for which in ("before", "after"):
            # 16 bits may move a row over the threshold
            assert number(shown[which]) == pytest.approx(value[which], abs=5e-3)


def test_a_dot_says_what_it_is_while_the_pointer_is_near(page):
    _, seen = page
    confidence, accuracy, rows = seen["tips"]["near"]
    assert confidence.startswith("confidence ")
    assert accuracy.startswith("accuracy ")
    assert rows.endswith(" rows") or rows == "1 row"
    assert seen["tips"]["away"] == []


def test_figures_can_be_saved(page):
    _, seen = page
    svg, png = seen["downloads"]["svg"], seen["downloads"]["png"]
    assert (svg["name"], png["name"]) == ("reliability-before.svg", "reliability-before.png")
    assert png["head"] == [137, 80, 78, 71, 13, 10, 26, 10]
    assert png["size"] > 5_000
    assert "var(--" not in svg["text"]
    assert ElementTree.fromstring(svg["text"]).tag.endswith("svg")


def test_the_code_of_the_page_is_that_of_python(page):
    want, seen = page
    assert seen["snippets"] == want["snippets"]
    assert seen["copied"] in ("Copied", "Press Ctrl+C")


def test_the_widest_table_fits_a_window_of_1280_pixels(page):
    width, room = page[1]["table"]
    assert width <= room


def test_groups_are_shown_where_they_are_given(look):
    assert "Group by group" in look("k2")[1]["text"]
    assert "Group by group" not in look("k3")[1]["text"]


def test_the_table_sorts_both_ways(page):
    want, seen = page
    shown = [
        label.replace(" chosen", "").replace(" compared only", "").strip()
        for label in seen["sorted"]
    ]
    assert shown == want["by_nll"]
    assert sorted(seen["sorted_down"]) == sorted(seen["sorted"])
    assert seen["sorted_down"][0] != seen["sorted"][0]


def test_a_class_called_script_is_shown_not_run(look):
    _, seen = look("k3")
    assert "<script>document.title='hacked'</script>" in seen["names"]
    assert seen["title"] == "val.npz: calibration report"
    assert seen["scripts"] == 2


def test_dark_mode_follows_the_system_and_the_button(page):
    _, seen = page
    colours = seen["background"]
    assert colours["light"] == colours["forced_light"] != colours["dark"] == colours["forced_dark"]


@pytest.mark.parametrize("where", ["light", "phone", "small", "print"])
def test_nothing_sticks_out(page, where):
    _, seen = page
    found = seen["overflow"][where]
    assert found["out"] == []
    assert found["scroll"] <= found["width"]


@pytest.mark.parametrize(
    ("name", "where"), [*((name, "light") for name in PAGES), ("k3", "dark"), ("k3", "phone")]
)
def test_axe_finds_nothing_serious(look, name, where):
    _, seen = look(name)
    assert [v for v in seen["axe"][where] if v["impact"] in ("serious", "critical")] == []
