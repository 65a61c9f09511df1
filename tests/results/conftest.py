"""Claims that a test declares are forgotten after it, so that the papers' own stay as they were."""

import pytest

from sflkit.results import claims


@pytest.fixture(autouse=True)
def _claims_of_this_test_alone(monkeypatch):
    monkeypatch.setattr(claims, "_declared", dict(claims._declared))
