"""Valid calls of the OSAFL paper's package."""

from __future__ import annotations

import numpy as np

from sflkit.federated.servers import LocalWork
from sflkit.osafl import (
    allocation,
    alternation,
    bounds,
    centralised,
    channels,
    config,
    devices,
    rules,
    scores,
    stores,
    training,
    video,
)

three = devices.Devices(*([value] * 3 for value in (3.0, 1e9, 2.0, 1e9, 1.0)))
link = devices.Link(1e6)
choice = dict(local_steps=[1.0, 2, 3], cpu_hz=[1e8] * 3, tx_watt=[0.5] * 3)
choice = {name: np.array(values) for name, values in choice.items()}
round_ = dict(
    beta=1.0,
    rate=0.01,
    global_rate=1.0,
    sigma2=1.0,
    alpha=np.array([0.5, 0.5]),
    similarity=np.array([0.5, 0.8]),
    local_steps=np.array([2.0, 3.0]),
    shift=np.array([0.1, 0.1]),
    rho1=1.0,
    rho2=0.1,
    skew=np.array([0.1, 0.2]),
)

SERVERS = {
    "OSAFL": lambda: rules.OSAFL(2, 1.0),
    "MAFACD": lambda: rules.MAFACD(2, 1.0),
    "MFedProx": lambda: rules.MFedProx(2, 0.1),
    "MFedDisco": lambda: rules.MFedDisco(2),
    "MFedAvg": lambda: rules.MFedAvg(2),
    "MFedNovaLatest": lambda: rules.MFedNovaLatest([3, 4]),
    "MFedNova": lambda: rules.MFedNova([3, 4]),
}


def rng() -> np.random.Generator:
    """Return a generator of its own."""
    return np.random.default_rng(0)


def catalogue() -> video.Catalogue:
    """Return ten files of two genres."""
    return video.catalogue(n_files=10, n_genres=2, rng=rng())


def users() -> video.Users:
    """Return two users of two genres."""
    return video.draw_users(2, 2, rng())


CALLS = {
    **{
        f"{name}()": lambda make=make: (
            make(),
            dict(
                params=np.ones(3),
                updates=np.array([[1.0, 2, 3], [0, 1, 2]]),
                weights=np.array([0.25, 0.75]),
                work=LocalWork([1, 0], [2, 3], 0.1),
            ),
        )
        for name, make in SERVERS.items()
    },
    "path_loss_db": lambda: (channels.path_loss_db, dict(distance_m=np.array([50.0, 100, 200]))),
    "snr_per_watt": lambda: (
        channels.snr_per_watt,
        dict(distance_m=np.array([50.0, 100]), shadowing_db=np.array([1.0, -1.0])),
    ),
    "draw_distances": lambda: (channels.draw_distances, dict(n_clients=3, rng=rng(), radius_m=9.0)),
    "draw_devices": lambda: (
        channels.draw_devices,
        dict(n_clients=3, rng=rng(), snr=np.ones(3), sample_bits=8, samples=2),
    ),
    "allocate": lambda: (allocation.allocate, dict(devices=three, link=link, method="joint")),
    "alternate": lambda: (alternation.alternate, dict(devices=three, link=link, solver="closed")),
    "objective": lambda: (
        alternation.objective,
        dict(devices=three, link=link, weight=0.5) | choice,
    ),
    "algorithm3": lambda: (alternation.algorithm3, dict(devices=three, link=link) | choice),
    "costs": lambda: (devices.costs, dict(devices=three, link=link) | choice),
    "Link": lambda: (
        devices.Link,
        dict(payload_bits=1e6, bandwidth_hz=1e5, deadline_s=9.0, max_steps=3),
    ),
    "osafl_scores": lambda: (scores.osafl_scores, dict(updates=np.ones((2, 3)), chi=1.0)),
    "disco_weights": lambda: (
        scores.disco_weights,
        dict(sizes=np.array([3, 4]), discrepancy=np.array([0.1, 0.2]), a=0.2, b=0.1),
    ),
    "osafl theorem1": lambda: (
        bounds.theorem1,
        round_ | dict(loss_decrease=1.0, score=np.array([0.5, 0.6])),
    ),
    "optimal_scores": lambda: (bounds.optimal_scores, round_ | dict(psi=1.0)),
    "Devices": lambda: (
        devices.Devices,
        dict(
            snr_per_watt=np.array([1.0, 2]),
            cycles_per_step=np.array([1e9, 2e9]),
            energy_budget_j=np.array([1.0, 2]),
            max_cpu_hz=np.array([1e9, 2e9]),
            max_tx_watt=np.array([0.1, 0.2]),
        ),
    ),
    "uplink_rate": lambda: (
        devices.uplink_rate,
        dict(snr_per_watt=np.array([1.0, 2]), tx_watt=np.array([0.1, 0.2]), bandwidth_hz=1e6),
    ),
    "finish": lambda: (devices.finish, dict(devices=three, link=link) | choice),
    "lemma1": lambda: (
        alternation.lemma1,
        dict(devices=three, link=link, cpu_hz=choice["cpu_hz"], tx_watt=choice["tx_watt"]),
    ),
    "lemma2": lambda: (
        alternation.lemma2,
        dict(
            devices=three, link=link, local_steps=choice["local_steps"], tx_watt=choice["tx_watt"]
        ),
    ),
    "least_power": lambda: (
        alternation.least_power,
        dict(devices=three, link=link, local_steps=choice["local_steps"], cpu_hz=choice["cpu_hz"]),
    ),
    "whole_steps": lambda: (
        alternation.whole_steps,
        dict(devices=three, link=link, history=alternation.alternate(three, link)),
    ),
    "draw_shadowing_db": lambda: (
        channels.draw_shadowing_db,
        dict(n_clients=3, rng=rng(), sigma_db=8.0),
    ),
    "label_discrepancy": lambda: (
        scores.label_discrepancy,
        dict(counts=np.array([[3, 1], [2, 2]])),
    ),
    "score_objective": lambda: (
        bounds.score_objective,
        round_ | dict(score=np.array([0.5, 0.6]), psi=1.0),
    ),
    "OSAFL": lambda: (
        rules.OSAFL,
        dict(n_clients=3, global_rate=1.0, chi=1.0, never_joined="exclude"),
    ),
    "MAFACD": lambda: (rules.MAFACD, dict(n_clients=3, global_rate=1.0, never_joined="exclude")),
    "MFedProx": lambda: (rules.MFedProx, dict(n_clients=3, mu=0.1, never_joined="exclude")),
    "MFedDisco": lambda: (rules.MFedDisco, dict(n_clients=3, never_joined="exclude", a=0.2, b=0.1)),
    "MFedNova": lambda: (
        rules.MFedNova,
        dict(sizes=np.array([3, 4]), slowdown=1.0, form="printed"),
    ),
    "draw_stores": lambda: (
        stores.draw_stores,
        dict(n_clients=3, rng=rng(), capacity_low=30, capacity_high=60),
    ),
    "fifo_windows": lambda: (
        stores.fifo_windows,
        dict(stores=stores.draw_stores(2, rng()), rounds=3, rng=rng()),
    ),
    "zipf_mandelbrot": lambda: (video.zipf_mandelbrot, dict(n_files=5, gamma=1.2, q=2.0)),
    "catalogue": lambda: (
        video.catalogue,
        dict(
            features=np.arange(20.0).reshape(10, 2),
            n_files=10,
            n_genres=2,
            gamma=1.2,
            q=2.0,
            rng=rng(),
        ),
    ),
    "draw_users": lambda: (
        video.draw_users,
        dict(n_users=2, n_genres=3, rng=rng(), concentration=0.3),
    ),
    "request_files": lambda: (
        video.request_files,
        dict(cat=catalogue(), users=users(), n_requests=4, rng=rng(), top_k=1),
    ),
    "request_matrix": lambda: (video.request_matrix, dict(cat=catalogue(), users=users(), top_k=1)),
    "dataset_1": lambda: (
        video.dataset_1,
        dict(cat=catalogue(), users=users(), user=1, requests=np.array([0, 3, 2, 9])),
    ),
    "dataset_2": lambda: (
        video.dataset_2,
        dict(cat=catalogue(), requests=np.array([0, 3, 2, 9]), past=2),
    ),
    "OSAFLConfig": lambda: (
        config.OSAFLConfig,
        dict(
            rule="osafl",
            seed=0,
            rounds=5,
            n_clients=4,
            top_k=1,
            chi=1.0,
            capacity_low=320,
            capacity_high=640,
            hidden=(8, 4),
        ),
    ),
    "make_rule": lambda: (
        training.make_rule,
        dict(config=config.OSAFLConfig(n_clients=3), sizes=np.array([3, 4, 5]), server=None),
    ),
    "appendix_a": lambda: (centralised.appendix_a, dict(arm="static", episodes=50)),
    "CentralisedConfig": lambda: (
        centralised.CentralisedConfig,
        dict(
            arm="static",
            seed=0,
            n_clients=5,
            alpha=0.9,
            order="shuffled",
            capacity_low=20,
            capacity_high=30,
            max_arrivals=5,
            arrival_low=0.3,
            arrival_high=0.8,
            decay=0.7,
            decay_at=(3, 5),
        ),
    ),
    "arrivals": lambda: (
        centralised.arrivals,
        dict(sizes=np.array([57, 70]), capacity=np.array([20, 20]), episodes=10, most=4),
    ),
    "Catalogue": lambda: (
        video.Catalogue,
        dict(features=np.eye(4), order=np.array([[1, 0], [2, 3]]), gamma=1.0, q=0.0),
    ),
    "Users": lambda: (
        video.Users,
        dict(preferences=np.full((2, 2), 0.5), stick=np.array([0.5, 0.8])),
    ),
    "windows of stores": lambda: (
        lambda **given: stores.fifo_windows(stores.Stores(**given), 3, rng()),
        dict(capacity=np.array([5, 6]), slots=np.array([2, 3]), probability=np.array([0.5, 0.6])),
    ),
    "alternate from a start": lambda: (
        lambda **given: alternation.alternate(three, link, start=alternation.Start(**given)),
        dict(cpu_share=1.0, tx_share=0.1),
    ),
}

BEYOND = {
    "OSAFLConfig": dict(
        top_k=(20,), capacity_low=(19, 159), capacity_high=(300,), hidden=((8, -3),)
    ),
    "CentralisedConfig": dict(
        capacity_low=(5,), capacity_high=(19,), arrival_high=(0.2,), decay_at=((5, 3), (0,), 3)
    ),
    "arrivals": dict(capacity=(np.array([57, 20]), np.array([0, 20]))),
    "Catalogue": dict(order=(np.array([[0, 2], [1, 3]]),), features=(np.eye(4) * 0,)),
    "catalogue": dict(n_genres=(3,)),
    "draw_stores": dict(capacity_low=(26,), capacity_high=(29,)),
    "windows of stores": dict(slots=(np.array([5, 3]),), probability=(np.array([0.5, 1.5]),)),
    "request_files": dict(top_k=(5,), users=(video.draw_users(2, 3, rng()),)),
    "request_matrix": dict(top_k=(5,)),
    "dataset_1": dict(user=(2,), requests=(np.array([0, 10]),)),
    "path_loss_db": dict(distance_m=(np.array([5001.0]),)),
    "draw_distances": dict(radius_m=(5001.0,)),
    "finish": dict(cpu_hz=(np.array([0, 1e8, 1e8]),), tx_watt=(np.array([0, 1.0, 1.0]),)),
    "alternate from a start": dict(cpu_share=(1.5,), tx_share=(1.5,)),
}
