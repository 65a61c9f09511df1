"""What the tests of results share."""

import pytest

from companion.judging import claims
from sflkit.runs import origin


@pytest.fixture(autouse=True)
def _claims_of_this_test_alone(monkeypatch):
    """Forget claims that a test declares, so that the papers' own stay as they were."""
    monkeypatch.setattr(claims, "_declared", dict(claims._declared))


@pytest.fixture
def committed(monkeypatch):
    """A clone as it was committed, whatever is being edited while the tests run."""
    monkeypatch.setattr(origin, "commit", lambda: "0123456789")
