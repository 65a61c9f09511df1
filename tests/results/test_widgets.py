"""The frame of every explorer: controls that draw anew, a busy sign, a picture for the file."""

import ipywidgets
import pytest

from sflkit.results import widgets


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
        if x == 0:
            raise ValueError("x=0 cannot be drawn")

    box = widgets.picture(draw, {"x": slider})
    slider.value = 3
    try:
        slider.value = 0
    except ValueError:
        pass  # outside a notebook nothing catches it
    assert box.children[0].value == ""


def test_a_notebook_without_a_reader_keeps_a_static_picture(slider, monkeypatch):
    drawn = []
    monkeypatch.setenv("SFLKIT_BATCH", "1")
    widgets.picture(lambda x: drawn.append(x), {"x": slider})
    assert drawn == [3]  # a script: there is no page to keep one on
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr(
        ipywidgets, "interactive_output", lambda draw, controls: ipywidgets.Output()
    )
    widgets.picture(lambda x: drawn.append(x), {"x": slider})
    assert drawn == [3, 3]
    monkeypatch.delenv("SFLKIT_BATCH")
    widgets.picture(lambda x: drawn.append(x), {"x": slider})
    assert drawn == [3, 3]
