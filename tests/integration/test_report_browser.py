"""The report in headless Chromium: on a phone, on a desk, in the dark, on paper; with hostile and with much content."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.browser import Browser, missing
from tests.report_runs import START, Story, collection_of, eventful
from unbroken.report import report_html
from unbroken.report.jobs import Jobs

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", autouse=True)
def chromium() -> None:
    if missing():
        pytest.fail(f"not here: {', '.join(missing())}; apt-get install chromium chromium-driver", pytrace=False)


PAGES = ("eventful", "empty", "hostile", "many")

OVERFLOW = """
const wide = document.documentElement.clientWidth;
return [...document.querySelectorAll('body *')].filter(e => {
  if (e.closest('svg.patterns') || e.tagName === 'TITLE' || !e.getClientRects().length) return false;
  for (let p = e.parentElement; p; p = p.parentElement)
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX) && p !== document.body) return false;
  const box = e.getBoundingClientRect();
  return box.right > wide + 1 || box.left < -1;
}).map(e => e.tagName + '.' + (e.getAttribute('class') || '') + ': ' + (e.textContent || '').slice(0, 60));
"""
OVERLAPS = """
const found = [], shown = e => e.getClientRects().length;
for (const box of document.querySelectorAll('.times, .x, .y')) {
  const spans = [...box.children].filter(shown).map(e => [e.textContent, e.getBoundingClientRect()]);
  for (let i = 0; i < spans.length; i++) for (let j = i + 1; j < spans.length; j++) {
    const [a, b] = [spans[i][1], spans[j][1]];
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
      found.push(spans[i][0] + ' / ' + spans[j][0]);
  }
}
const blocks = 'h1, h2, h3, p, .tiles li, .lane, .wide, .key li, figcaption, nav li, summary';
const texts = [...document.querySelectorAll(blocks)].filter(shown);
for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < Math.min(texts.length, i + 12); j++) {
  if (texts[i].contains(texts[j]) || texts[j].contains(texts[i])) continue;
  const [a, b] = [texts[i].getBoundingClientRect(), texts[j].getBoundingClientRect()];
  if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
    found.push(texts[i].textContent.slice(0, 40) + ' / ' + texts[j].textContent.slice(0, 40));
}
return found;
"""
POOR_CONTRAST = """
const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const back = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
  if (!/, 0\\)$|transparent/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
return [...document.querySelectorAll('body *')].filter(e => !e.closest('svg') && e.getClientRects().length
  && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())).map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(back(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.textContent.slice(0, 40)]; }).filter(([ratio]) => ratio < 4.5);
"""
SMALL_TEXT = """
return [...document.querySelectorAll('body *')].filter(e => e.getClientRects().length && !e.closest('svg')
  && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())
  && parseFloat(getComputedStyle(e).fontSize) < 12).map(e => e.textContent.slice(0, 40));
"""
BARS = """
return [...document.querySelectorAll('.track svg [class^=b-]')].filter(e => e.getBoundingClientRect().width > 0).length
"""
MARKERS = """
return ['completed', 'interrupted', 'killed', 'failed'].map(k => document.querySelectorAll('.track .m-' + k).length)
"""
DASHES = """
return [0, 1, 2].map(n => getComputedStyle(document.querySelector('path.curve.s' + n)).strokeDasharray)
"""
FILLS = """
const fill = k => getComputedStyle(document.querySelector('.track .b-' + k)).fill;
return ['running', 'lost', 'replayed', 'queued'].map(fill);
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    made = {"eventful": eventful(folder / "eventful"), "empty": (collection_of(folder / "empty"), folder)}
    made["hostile"] = hostile(folder / "hostile")
    made["many"] = many(folder / "many")
    for name, (collection, runs) in made.items():
        (folder / f"{name}.html").write_text(report_html(collection, runs, jobs=Jobs(), now=START + 60_000))
    return {name: folder / f"{name}.html" for name in made}


def hostile(folder: Path) -> tuple[Any, Path]:
    """Long words, markup, scripts, direction marks."""
    bad = "</pre></style><script>console.error('run')</script><img src='http://example.invalid/x.png'>" + "w" * 300
    collection = collection_of(folder, description=bad, grid={"k" * 80: [bad, "x"]}, seeds=2)
    for run in collection.runs():
        story = Story(run, folder / "runs").begin().train(50)
        story.event("code_changed", what=bad)
        story.crash(bad, bad).write(log=bad + "\n" + "no spaces" * 400)
        story.paths.profile.mkdir()
        (story.paths.profile / "table.txt").write_text("x" * 400 + bad)
    return collection, folder / "runs"


def many(folder: Path) -> tuple[Any, Path]:
    """Two hundred runs, up to nine attempts each, over weeks, with many measures."""
    collection = collection_of(folder, grid={"hidden": list(range(1, 21)), "learning_rate": [0.1]}, seeds=10)
    for index, run in enumerate(collection.runs()):
        story = Story(run, folder / "runs", clock=START + 900 * index, job=str(index)).begin()
        for _ in range(index % 9):
            story.train(30).preempt(story.step + 30).wait(5000 * (index % 5)).begin()
        story.train(400 - story.step).finish(metrics={f"measure_{n}.on_the_test_set": n / 7 for n in range(14)}).write()
    return collection, folder / "runs"


@pytest.fixture(scope="module")
def phone() -> Iterator[Browser]:
    with Browser(390, 844, phone=True) as browser:
        yield browser


@pytest.fixture(scope="module")
def desk() -> Iterator[Browser]:
    with Browser(1280, 900) as browser:
        yield browser


def opened(browser: Browser, page: Path) -> Browser:
    """The page open, everything folded out, nothing loaded and nothing complained about."""
    browser.open(page)
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.log("browser") == []
    browser.ask("document.querySelectorAll('details').forEach(e => e.open = true)")
    return browser


@pytest.mark.parametrize("name", PAGES)
def test_on_a_phone(phone: Browser, pages: dict[str, Path], name: str) -> None:
    opened(phone, pages[name])
    assert phone.ask("return innerWidth") == 390
    assert phone.ask("return document.documentElement.scrollWidth") <= 390
    assert phone.ask(OVERFLOW) == []
    assert phone.ask(OVERLAPS) == []
    assert phone.ask(SMALL_TEXT) == []


@pytest.mark.parametrize("name", PAGES)
def test_on_a_desk(desk: Browser, pages: dict[str, Path], name: str) -> None:
    opened(desk, pages[name])
    assert desk.ask("return document.documentElement.scrollWidth") <= 1280
    assert desk.ask(OVERFLOW) == []
    assert desk.ask(OVERLAPS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(desk: Browser, pages: dict[str, Path], scheme: str) -> None:
    opened(desk, pages["eventful"])
    desk.scheme(scheme)
    assert desk.ask("return matchMedia('(prefers-color-scheme: dark)').matches") is (scheme == "dark")
    assert desk.ask(POOR_CONTRAST) == []
    desk.scheme("light")


def test_the_charts_are_drawn(desk: Browser, pages: dict[str, Path]) -> None:
    opened(desk, pages["eventful"])
    assert desk.ask(BARS) > 60
    widths = desk.ask("return [...document.querySelectorAll('path.curve')].map(e => e.getBBox().width)")
    assert len(widths) == 8 and sum(width > 900 for width in widths) == 6
    assert desk.ask(MARKERS) == [6, 5, 1, 2]


def test_lines_and_bars_differ_without_colour(desk: Browser, pages: dict[str, Path]) -> None:
    opened(desk, pages["eventful"])
    assert len(set(desk.ask(DASHES))) == 3
    fills = desk.ask(FILLS)
    assert len(set(fills)) == 4 and sum("url" in fill for fill in fills) == 2


def test_the_checks_see_what_they_are_for(phone: Browser, pages: dict[str, Path]) -> None:
    opened(phone, pages["eventful"])
    phone.ask("document.querySelector('h1').style.cssText = 'width: 500px; color: #ccc; font-size: 9px'")
    phone.ask("document.querySelectorAll('.x span').forEach(e => e.style.left = '50%')")
    assert any(found.startswith("H1") for found in phone.ask(OVERFLOW))
    assert phone.ask(OVERLAPS) != []
    assert phone.ask(SMALL_TEXT) == ["rivers"]
    assert [words for _, words in phone.ask(POOR_CONTRAST)] == ["rivers"]
    phone.ask("fetch('http://127.0.0.1:9/x').catch(() => 0); console.error('seen')")
    assert any("seen" in entry["message"] for entry in phone.log("browser"))
    assert "http://127.0.0.1:9/x" in phone.requests()


@pytest.mark.parametrize("name", ["eventful", "many"])
def test_on_paper(desk: Browser, pages: dict[str, Path], tmp_path: Path, name: str) -> None:
    desk.open(pages[name])  # nothing folded out: paper shows what is open
    desk.cdp("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert desk.ask("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert desk.ask("return getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert desk.ask("return getComputedStyle(document.querySelector('nav')).display") == "none"
    desk.pdf(tmp_path / "page.pdf")
    desk.cdp("Emulation.setEmulatedMedia", media="", features=[])
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF") and (tmp_path / "page.pdf").stat().st_size > 50_000


def test_the_keyboard_reaches_what_scrolls(desk: Browser, pages: dict[str, Path]) -> None:
    opened(desk, pages["many"])
    unreachable = "return [...document.querySelectorAll('.wide, pre')].filter(e => e.tabIndex < 0).length"
    assert desk.ask(unreachable) == 0
    assert desk.ask("return [...document.querySelectorAll('svg[role=img]')].filter(e => !e.ariaLabel).length") == 0
