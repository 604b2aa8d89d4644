"""Two runs side by side, on screens of several widths and in both themes."""

import pytest

pytestmark = pytest.mark.browser

BASE, NEW = "two_models/version_0", "two_models/version_2"
PICTURES = """
return [...document.querySelectorAll('.multiple')].map(picture => {
  const bars = [...picture.querySelectorAll('.bar')];
  const track = picture.querySelector('.track').getBoundingClientRect();
  const ends = [...picture.querySelectorAll('.interval')].map(line => line.getBoundingClientRect());
  return {
    name: picture.querySelector('figcaption').innerText,
    grey: picture.classList.contains('noise'),
    says: picture.querySelector('.between').innerText,
    colors: bars.map(bar => getComputedStyle(bar).backgroundColor),
    widths: bars.map(bar => bar.getBoundingClientRect().width / track.width),
    fits: ends.every(end => end.left >= track.left - 1 && end.right <= track.right + 1),
    lines: ends.length,
  };
})
"""
NAMES_ON_SEVERAL_LINES = """
const names = document.querySelectorAll('.multiple figcaption, td.colored, .facts-line dd');
return [...names].filter(name => {
  const text = document.createRange();
  text.selectNodeContents(name);
  return text.getBoundingClientRect().height > 30;  // a line is 20 px high
}).map(name => name.innerText)
"""
OVERFLOWS = "return document.documentElement.scrollWidth > innerWidth"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 900, 1360])
def test_each_phase_is_a_picture_on_its_own_scale_and_noise_is_grey(page, screen, width, theme):
    screen(width)
    page.open(NEW, view="compare", base=BASE)
    page.wait_for(".multiple")
    dark = str(theme == "dark").lower()
    page.browser.run(f"document.body.classList.toggle('dark-mode', {dark})")
    page.browser.wait(f"return document.documentElement.dataset.theme === '{theme}'")
    page.wait_for(".multiple")
    pictures = {picture["name"]: picture for picture in page.browser.run(PICTURES)}
    waits, backward = pictures["Data wait"], pictures["Backward"]
    assert [name for name, picture in pictures.items() if not picture["grey"]] == ["Data wait"]
    assert "to -" in waits["says"]
    assert all(picture["fits"] and picture["lines"] == 2 for picture in pictures.values())
    for name, picture in pictures.items():
        assert max(picture["widths"]) > 0.5, name  # on a common scale most would hardly be seen
        if picture["grey"]:
            assert "within noise" in picture["says"]
            assert picture["colors"] == backward["colors"]
    assert waits["colors"][1] != backward["colors"][1]
    assert not page.browser.run(OVERFLOWS)
    assert page.browser.run(NAMES_ON_SEVERAL_LINES) == []


@pytest.mark.parametrize("run", ["hostile <b>run</b>", "gpu", "char_lm/version_0"])
def test_names_stand_on_one_line_on_a_phone(page, screen, run):
    screen(420)
    page.open(run, view="compare", base="two_ranks")
    page.wait_for(".multiple")
    assert page.browser.run(NAMES_ON_SEVERAL_LINES) == []
    assert not page.browser.run(OVERFLOWS)


def test_the_table_says_what_the_pictures_show(page):
    page.open(NEW, view="compare", base=BASE)
    page.wait_for(".multiple")
    page.click(".card[aria-label='Phases'] .table-box > .link")
    words = {row[0]: row[-1] for row in page.rows("[data-table='phases']")}
    assert words.pop("Data wait") == "beyond noise"
    assert set(words.values()) == {"within noise"}
    bars = "[...document.querySelectorAll('[data-table=phases] .cell-bar')]"
    drawn = page.browser.run(f"return {bars}.map(bar => bar.className)")
    assert drawn[0] == "cell-bar less"
    assert set(drawn[1:]) == {"cell-bar neutral"}
