"""The settings: what is refused, and the keys of all published results."""

from dataclasses import fields, replace

import pytest

from sflkit.fats.config import FATSConfig, MembershipConfig
from tests.fats.fats_cases import TINY_RUN

MEMBERSHIP = MembershipConfig(data="digits", model="linear", batch_size=3, rounds=4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(request_round=6), "request_round=6 must be an integer >= 1 and <= 5"),
        (dict(interval=2), "interval=2 must be 0 unless streaming and train are True"),
        (dict(per_request=2), "per_request=2 must divide n_requests"),
        (dict(samples_per_client=2), "samples_per_client=2 must be an integer >= 3"),
        (dict(train=False), "samples_per_client=None must be given without training"),
        (dict(train=False, n_clients=None, level="client"), "n_clients=None and samples"),
        (
            dict(train=False, method="frs", clients_per_round=7, level="client"),
            "clients_per_round=7 must be at most n_clients=6",
        ),
    ],
)
def test_bad_values_of_a_run(change, message):
    with pytest.raises(ValueError, match=message):
        replace(TINY_RUN, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(methods=()), r"methods=\(\) must hold at least one of 'fats'"),
        (dict(levels=("sample", "sample")), r"levels=\('sample', 'sample'\) .* none twice"),
        (dict(n_clients=None), "n_clients=None must be an integer >= 2"),
        (dict(samples_per_client=None), "samples_per_client=None must be an integer >= 1"),
    ],
)
def test_bad_values_of_a_membership_run(change, message):
    with pytest.raises(ValueError, match=message):
        replace(MEMBERSHIP, **change)


@pytest.mark.parametrize("config", [FATSConfig, MembershipConfig])
def test_every_field_is_documented(config):
    assert all(field.name in config.__doc__ for field in fields(config))
