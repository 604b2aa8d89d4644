"""Contrast as WCAG 2 computes it, from the stylesheet's own colours: AA asks for 4.5."""

import re

import pytest

from lightning_gpuprof.report.static import STATIC

AA = 4.5
PAIRS = [
    ("text", "bg"),
    ("text", "surface"),
    ("text", "raised"),
    ("muted", "bg"),
    ("muted", "surface"),
    ("muted", "raised"),
    ("accent", "surface"),
    ("accent", "bg"),
    ("accent", "accent-soft"),
    ("text", "accent-soft"),
    ("critical", "critical-soft"),
    ("critical", "surface"),
    ("warning", "warning-soft"),
    ("info", "info-soft"),
    ("good", "surface"),
]


def colors(theme):
    css = (STATIC / "style.css").read_text(encoding="utf-8")
    light = re.search(r":root \{(.*?)\}", css, re.DOTALL)[1]
    dark = re.search(r':root\[data-theme="dark"\] \{(.*?)\}', css, re.DOTALL)[1]
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    return found | (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark)) if theme else {})


def luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_has_the_highest_contrast():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", ["", "dark"])
@pytest.mark.parametrize(("ink", "ground"), PAIRS)
def test_text_can_be_read_on_its_ground(theme, ink, ground):
    known = colors(theme)
    assert contrast(known[ink], known[ground]) >= AA


def ink_on(fill):
    """The choice that `ink` of colors.js makes."""
    r, g, b = ((int(fill[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5))
    return "#11141a" if 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 else "#ffffff"


def test_text_can_be_read_on_every_colour_of_a_chart():
    fills = re.findall(r': "(#[0-9a-f]{6})",', (STATIC / "colors.js").read_text(encoding="utf-8"))
    assert len(fills) > 40
    poor = [fill for fill in fills if contrast(fill, ink_on(fill)) < AA]
    assert poor == []


def test_no_line_of_a_browser_module_is_longer_than_a_screen_is_wide():
    for module in STATIC.rglob("*.js"):
        lines = module.read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if len(line) > 140] == [], module.name
