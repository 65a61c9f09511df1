"""The frame of every explorer: controls that draw anew, a busy sign, a picture for the file."""

import contextlib
import itertools
import threading
import time

import ipywidgets
import matplotlib.pyplot as plt
import pytest

from companion import widgets


@pytest.fixture
def slider():
    return ipywidgets.IntSlider(3, 0, 10, description="x")


def test_a_move_draws_anew_and_says_so_meanwhile(slider):
    drawn, signs = [], []

    def draw(x):
        drawn.append(x)
        signs.append(box.children[0].value if drawn[1:] else widgets.BUSY)

    box = widgets.picture(draw, {"x": slider})
    slider.value = 7
    assert drawn == [3, 7] and signs == [widgets.BUSY] * 2
    assert box.children[0].value == ""


def test_the_sign_goes_when_drawing_fails(slider, capsys):
    def draw(x):
        plt.figure()
        if x == 0:
            raise ValueError("x=0 cannot be drawn")
        plt.close()

    box = widgets.picture(draw, {"x": slider})
    slider.value = 3
    try:
        slider.value = 0
    except ValueError:
        pass  # outside a notebook nothing catches it
    assert box.children[0].value == ""
    assert not plt.get_fignums()  # it would be shown with the next picture


def test_moves_in_two_threads_draw_one_after_the_other(slider):
    # JupyterLab has a kernel answer in threads; pyplot showed one figure while the other was drawn
    other = ipywidgets.IntSlider(1, 0, 10)
    spans = []

    def draw(x, y):
        began = time.perf_counter()
        time.sleep(0.05)
        spans.append((began, time.perf_counter(), x, y))

    widgets.picture(draw, {"x": slider, "y": other})
    moves = [threading.Thread(target=setattr, args=(c, "value", 5)) for c in (slider, other)]
    for move in moves:
        move.start()
    for move in moves:
        move.join()
    assert len(spans) == 3
    assert all(end <= begin for (_, end, *_), (begin, *_) in itertools.pairwise(spans))
    assert spans[-1][2:] == (5, 5)


class Page(contextlib.nullcontext):
    """An output without a notebook around it."""

    def clear_output(self, wait):
        pass


def test_a_notebook_without_a_reader_keeps_a_static_picture(slider, monkeypatch):
    drawn = []

    def draws() -> int:
        """How often it is drawn: into the widget, and as an ordinary output."""
        drawn.clear()
        widgets.picture(lambda x: drawn.append(x), {"x": slider})
        assert set(drawn) == {3}
        return len(drawn)

    monkeypatch.setenv("SFLKIT_BATCH", "1")
    assert draws() == 1  # a script: there is no page to keep a picture on
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr(ipywidgets, "Output", Page)
    monkeypatch.setattr(ipywidgets, "VBox", lambda children: None)
    assert draws() == 2
    monkeypatch.delenv("SFLKIT_BATCH")
    assert draws() == 1
