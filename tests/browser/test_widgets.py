"""Every control of every widget in JupyterLab, moved as a reader moves it: by mouse and keyboard.

A redraw is timed from the key to the new picture, and by what the kernel computed meanwhile. Its
length is a promise for idle cores, and is asked of them alone.
"""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path

import pytest

from tests.browser.lab import Visit, fresh_clone, serve
from tests.helpers import ROOT

BOOKS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "notebooks").glob("*.ipynb")}
# The tags of the cells that must run before the widget, where it needs more than the imports.
NEEDS = {"90_verdicts": ("imports", "parameters", "validate", "run")}
STEMS = sorted(
    stem
    for stem, book in BOOKS.items()
    if any("widget" in cell["metadata"].get("tags", []) for cell in book["cells"])
)
# A control that shows nothing unless another one has a certain value: where a menu is left.
LEFT_AT = {"rule": "SRSR"}
TEXTS = ("theorem", "drsr")
# Keys that move a slider, and the end at which they do nothing.
KEYS = (("End", "max"), ("ArrowLeft", "min"), ("Home", "min"), ("ArrowRight", "max"))
IDLE = 0.5  # seconds that a redraw may take on idle cores
REDRAW = 60  # and that this test waits for one
# Counts what is drawn into the widget: JupyterLab puts a new picture in, or fills the old one
# anew.
WATCH = """
() => {
  const boxes = [...document.querySelectorAll('.jp-CodeCell .widget-vbox')];
  const box = boxes.filter(b => !b.parentElement.closest('.widget-vbox')).at(-1);
  box.id = 'widget';
  window.drawn = {count: 0, at: 0};
  const picture = n => n.matches?.('img, table') || n.querySelector?.('img, table');
  new MutationObserver(changes => {
    const put = changes.some(c => c.type === 'attributes'
      ? c.target.matches('img') : [...c.addedNodes].some(picture));
    if (put) { window.drawn.count += 1; window.drawn.at = performance.now(); }
  }).observe(box, {childList: true, subtree: true, attributes: true, attributeFilter: ['src']});
}
"""
SHOWN = """() => [...document.querySelectorAll('#widget .jp-OutputArea img, #widget .widget-html')]
  .map(n => n.src || n.innerHTML).join()"""


@pytest.fixture(scope="module")
def address(browser, tmp_path_factory):
    """JupyterLab's address, from `make lab` in a clone of its own."""
    clone = fresh_clone(tmp_path_factory.mktemp("widgets") / "sflkit")
    with serve(clone, tmp_path_factory.mktemp("jupyter")) as found:
        yield found


@pytest.fixture
def visit(browser, address):
    """A function that opens a notebook in a browser of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield lambda stem: Visit(context.new_page(), address, stem)
    context.close()


class Redraws:
    """Moves controls and notes what each move took."""

    def __init__(self, here: Visit):
        self.here, self.tab = here, here.tab
        here.show("widget")
        self.tab.wait_for_selector(".jp-CodeCell .widget-vbox img, .jp-CodeCell .widget-html table")
        self.tab.evaluate(WATCH)
        self.tab.set_default_timeout(REDRAW * 1000)
        self.pid = int(here.kernel("__import__('os').getpid()"))
        self.seconds: list[float] = []
        self.computed: list[float] = []
        self.changing: set[str] = set()
        self.moved: set[str] = set()

    def _cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def move(self, name: str, act) -> None:
        """Do something to a control and wait until the widget is drawn anew and no longer busy."""
        before, cpu = self.tab.evaluate(SHOWN), self._cpu()
        count, began = self.tab.evaluate("[window.drawn.count, performance.now()]")
        act()
        self.tab.wait_for_function("count => window.drawn.count > count", arg=count)
        busy = "!document.querySelector('#widget').innerText.includes('drawing …')"
        self.tab.wait_for_function(busy)
        self.seconds.append((self.tab.evaluate("window.drawn.at") - began) / 1000)
        self.computed.append(self._cpu() - cpu)
        self.moved.add(name)
        if self.tab.evaluate(SHOWN) != before:
            self.changing.add(name)


def every_control(redraws: Redraws) -> list[str]:
    """Move all controls of the widget to both ends and back; return their names."""
    box, names = redraws.tab.locator("#widget"), []
    for control in box.locator(".widget-slider").all():
        name = control.locator(".widget-label").inner_text().strip()
        names.append(name)
    for menu in box.locator(".widget-dropdown").all():
        name = menu.locator(".widget-label").inner_text().strip()
        names.append(name)
        select = menu.locator("select")
        labels = [text.strip() for text in select.locator("option").all_inner_texts()]
        now = select.evaluate("s => s.selectedOptions[0].innerText.trim()")
        last = LEFT_AT.get(name, now)
        for label in [*(x for x in labels if x not in (now, last)), last]:
            if label != select.evaluate("s => s.selectedOptions[0].innerText.trim()"):
                redraws.move(name, lambda s=select, x=label: s.select_option(label=x))
    for field in box.locator(".widget-text").all():
        name = field.locator(".widget-label").inner_text().strip()
        names.append(name)
        for text in (*TEXTS, ""):
            redraws.move(name, lambda f=field, t=text: f.locator("input").fill(t))
    for control in box.locator(".widget-slider").all():
        name = control.locator(".widget-label").inner_text().strip()
        handle, readout = control.locator(".noUi-handle"), control.locator(".widget-readout")
        for key, end in KEYS:
            if handle.get_attribute("aria-valuenow") == handle.get_attribute(f"aria-value{end}"):
                continue  # it is there already
            at = readout.inner_text()
            redraws.move(name, lambda h=handle, k=key: h.press(k))
            assert readout.inner_text() != at, f"{name} does not move by {key}"
    return names


@pytest.mark.parametrize("stem", STEMS)
def test_every_control_moves_and_redraws(visit, stem, capsys):
    here = visit(stem)
    here.run(*NEEDS.get(stem, ("imports",)), "widget")
    redraws = Redraws(here)
    names = every_control(redraws)
    assert here.said == []
    assert set(names) == redraws.moved and len(names) >= 3
    assert set(names) == redraws.changing, "a control changes nothing that a reader sees"
    taken, computed = (
        f"{statistics.median(seconds):.2f} (worst {max(seconds):.2f})"
        for seconds in (redraws.seconds, redraws.computed)
    )
    with capsys.disabled():
        print(
            f"\n{stem}: {len(names)} controls, {len(redraws.seconds)} moves; seconds to redraw "
            f"{taken}, computed {computed}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        )
    if os.getloadavg()[0] < os.cpu_count():  # otherwise both are as long as others make them
        assert statistics.median(redraws.seconds) <= IDLE
