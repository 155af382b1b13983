"""The page in a real browser: Debian's Chromium, driven by frontend/browser/observe.mjs."""

import pytest

PAGES = ["k3", "k1000"]


def number(text):
    """Return the first number of a text such as "ECE 2.95 %", as a fraction where in percent."""
    value = text.replace("\u2212", "-").replace("\u202f", " ").split("%")[0].split()[-1]
    return float(value) / 100 if "%" in text else float(value)


@pytest.fixture(scope="module", params=PAGES)
def page(request, look):
    return look(request.param)


def test_it_draws_everything_without_a_word_on_the_console(page):
    want, seen = page
    assert seen["console"] == []
    assert seen["charts"] >= 9
    assert seen["rows"] == len(want["labels"])
    assert seen["headline"].startswith("Overconfident by")


def test_it_asks_for_nothing_but_itself(page):
    _, seen = page
    assert len(seen["requests"]) == 1
    assert seen["requests"][0].startswith("file:")


def test_its_policy_forbids_what_it_does_not_do(page):
    _, seen = page
    assert seen["fetch"] == "connect-src"


def test_the_sliders_move_the_numbers_to_what_python_gives(page):
    want, seen = page
    for point, shown in zip(want["live"], seen["live"], strict=True):
        for name, value in point.items():
            rounding = 6e-4 if name == "s99" else 6e-5
            scale = max(1.0, value) if name == "nll" else 1.0
            assert number(shown[name]) == pytest.approx(value, abs=1e-3 * scale + rounding), name


def test_presets_and_reset_set_both_sliders(page):
    want, seen = page
    assert seen["reset"] == [0, 1]
    assert seen["presets"]["temperature"] == [0, pytest.approx(want["temperature"], abs=5.1e-4)]
    assert seen["presets"]["posterior"] == [2, 1]


def test_the_sliders_obey_the_keyboard(page):
    _, seen = page
    assert seen["keys"] == [0.01, 1.01]


def test_a_click_on_the_heat_map_sets_the_sliders(page):
    _, seen = page
    gamma, temperature = seen["clicked"]["parameters"]
    assert -0.5 < gamma < 5.0
    assert temperature > 0.05
    assert seen["marker"] == pytest.approx([0.6, 0.4], abs=0.01)
    assert number(seen["clicked"]["ece"]) != number(seen["live"][-1]["ece"])


def test_the_heat_map_obeys_the_keyboard(page):
    want, seen = page
    steps = [(high - low) for low, high in want["grid"]]
    moved = [b - a for a, b in zip(seen["clicked"]["parameters"], seen["moved"], strict=True)]
    assert moved == pytest.approx(steps, abs=2e-3)
    assert seen["optimum"] == pytest.approx(want["optimum"], abs=1e-3)


def test_diagrams_follow_bins_and_classes(page):
    want, seen = page
    for value, shown in zip(want["diagrams"], seen["diagrams"], strict=True):
        for which in ("before", "after"):
            assert number(shown[which]) == pytest.approx(value[which], abs=1e-3)


def test_the_table_sorts_both_ways(page):
    want, seen = page
    shown = [label.replace(" chosen", "").strip() for label in seen["sorted"]]
    assert shown == want["by_nll"]
    assert sorted(seen["sorted_down"]) == sorted(seen["sorted"])
    assert seen["sorted_down"][0] != seen["sorted"][0]


def test_a_class_called_script_is_shown_not_run(look):
    _, seen = look("k3")
    assert "<script>document.title='hacked'</script>" in seen["names"]
    assert seen["title"] == "Calibration report"
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


@pytest.mark.parametrize("where", ["light", "dark", "phone"])
def test_axe_finds_nothing_serious(page, where):
    _, seen = page
    assert [v for v in seen["axe"][where] if v["impact"] in ("serious", "critical")] == []


def test_it_follows_the_hand(page):
    """A generous bound on a shared machine: about 20 ms on an idle one."""
    _, seen = page
    assert seen["frame_ms"] < 500
