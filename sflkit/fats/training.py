"""Learning, requests to forget, and recovery, for FATS, FRS and FR2. Source: FATS, Sections
6.1-6.2, Appendix A.

A run with training gives the accuracy over rounds that Figs. 1, 5 and 8 draw: R rounds of learning,
the requests, and the rounds that the method recomputes. FATS goes back to the model before the
round of first use, the baselines to the start. Without training (`train=False`) it gives the
unlearning time of many histories, for Figs. 2, 3, 6 and Theorem 7.

Runs that differ only in the method start from the same model on the same clients and serve the same
requests. The paper trains with a rate of 0.001; with plain SGD, which its Algorithm 1 is, the CNN
is then at 0.39 on MNIST after the 30 rounds of Table 2 (seed 0, 1000 test images), so figures of
learning need a larger one."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sflkit.data import federations
from sflkit.fats.config import FATSConfig
from sflkit.fats.first_uses import first_uses
from sflkit.fats.history import draw_history
from sflkit.randomness import generator

EXPERIMENT = "fats-training"


RESULT_VERSION = 1


def run(config: FATSConfig, *, federation=None, model=None, start=None) -> pd.DataFrame:
    """Run one method.

    Parameters
    ----------
    config : FATSConfig
    federation : sflkit.data.federations.Federation, optional
        Your own clients and data, in place of `data`, `n_clients` and the sizes.
    model : torch.nn.Module, optional
        Your own network.
    start : (P,) tensor, optional
        Your own first model, pretrained weights for instance; by default drawn from the seed.

    Returns
    -------
    DataFrame
        With training one row an evaluation: phase ("learning" or "recovery"), round (communication
        rounds so far, recomputed ones included), model_round (rounds that the evaluated model
        stands for), requests (sets of requests that have come), forgotten (samples and clients),
        accuracy, loss, and what forgetting has cost so far: unlearning_rounds, unlearning_steps
        (the paper's unlearning time), unlearning_seconds, unlearning_bytes (both ways),
        scratch_steps (FRS's, if each request were served to its end; with an `interval` the next
        one may come before). A request gives a row of phase "recovery" with the model it falls back
        to, `round` unchanged. During recovery the model holds nothing forgotten, but is not yet the
        one that is released. Without training one row a history: hits (requests that recompute),
        steps (unlearning time from the first use on, T - t_S or T - t_C), replayed_steps (from the
        kept model at or before it on, whole rounds), scratch_steps.

    Raises
    ------
    ValueError
        If the data do not fit the config, or so many requests cannot be served.
    FloatingPointError
        If the global model stops being finite.
    """
    return _train(config, federation, model, start) if config.train else _count(config)


def _count(config: FATSConfig) -> pd.DataFrame:
    steps, done = config.local_steps, config.request_round or config.rounds
    scratch = done * steps * (config.n_requests if config.streaming else 1)
    if config.method != "fats":
        whole = {
            "hits": config.n_requests if config.streaming else 1,
            "steps": scratch,
            "replayed_steps": scratch,
        }
        return pd.DataFrame(
            [{"run": i} | whole | {"scratch_steps": scratch} for i in range(config.runs)]
        )
    first = first_uses(
        level=config.level,
        n_requests=config.n_requests,
        streaming=config.streaming,
        runs=config.runs,
        n_clients=config.n_clients,
        samples_per_client=config.samples_per_client or config.batch_size,
        clients_per_round=config.clients_per_round,
        batch_size=config.batch_size,
        local_steps=steps,
        rounds=config.rounds,
        rng=generator(config.seed, "monte_carlo"),
    )
    hit = first < done * steps
    kept = first // steps // config.checkpoint_every * config.checkpoint_every
    return pd.DataFrame(
        {
            "run": np.arange(config.runs),
            "hits": hit.sum(axis=1),
            "steps": np.where(hit, done * steps - first, 0).sum(axis=1),
            "replayed_steps": np.where(hit, (done - kept) * steps, 0).sum(axis=1),
            "scratch_steps": scratch,
        }
    )


def choose_requests(config: FATSConfig, sizes: np.ndarray) -> list[tuple]:
    """Return the requests of a run, (client, sample) or (client, None): random ones that can be
    served, the same for all methods.

    `sizes` (n_clients,) are the clients' samples. Clients: any `n_requests`, at least one is left.
    Samples: uniform over all, passing over those whose client would be left with fewer than a
    mini-batch. Raises ValueError if there are not so many."""
    rng = generator(config.seed, "requests")
    if config.level == "client":
        if config.n_requests >= len(sizes):
            raise ValueError(
                f"n_requests={config.n_requests} must be below {len(sizes)}, the number of clients"
            )
        return [(int(k), None) for k in rng.permutation(len(sizes))[: config.n_requests]]
    ends, left, chosen = np.cumsum(sizes), np.array(sizes), []
    for number in rng.permutation(ends[-1]):
        k = int(np.searchsorted(ends, number, side="right"))
        if left[k] > config.batch_size:
            left[k] -= 1
            chosen.append((k, int(number - ends[k] + sizes[k])))
            if len(chosen) == config.n_requests:
                return chosen
    raise ValueError(
        f"n_requests={config.n_requests} must be at most {len(chosen)}: every client keeps batch_size="
        f"{config.batch_size} samples"
    )


def _train(config: FATSConfig, federation, model, start) -> pd.DataFrame:
    import torch

    from sflkit import federated, models
    from sflkit.fats import baselines, unlearning

    if federation is None:
        federation = federations.static(
            config.data,
            n_clients=config.n_clients,
            seed=config.seed,
            alpha=config.alpha,
            n_samples=config.n_samples,
            samples_per_client=config.samples_per_client,
            min_samples=max(config.min_samples, config.batch_size),
        )
    if model is None:
        options = {"width": config.width} if config.model in ("vgg16", "mobilenetv2") else {}
        options |= {"cell": "lstm"} if config.model == "char_rnn" else {}
        model = models.create(
            config.model,
            input_shape=federation.input_shape,
            n_classes=federation.n_classes,
            **options,
        )
    task, device = federated.Task(model), "cuda" if torch.cuda.is_available() else "cpu"
    start = (
        task.init(int(generator(config.seed, "model").integers(2**31))) if start is None else start
    )
    x, y = torch.tensor(federation.x, device=device), torch.tensor(federation.y, device=device)
    clients = [
        (x[ids], y[ids]) for ids in (torch.tensor(ids, device=device) for ids in federation.clients)
    ]
    n_test = len(federation.y_test)
    chosen = generator(config.seed, "test_set").permutation(n_test)[: config.test_size]
    test = (
        torch.tensor(federation.x_test[chosen], device=device),
        torch.tensor(federation.y_test[chosen], device=device),
    )
    requests = choose_requests(config, federation.sizes)
    rng = generator(config.seed, "participation")
    draw = draw_history if config.method == "fats" else baselines.draw_fedavg
    history = draw(
        n_clients=federation.n_clients,
        samples_per_client=federation.sizes,
        rounds=config.rounds,
        rng=rng,
        clients_per_round=config.clients_per_round,
        batch_size=config.batch_size,
        local_steps=config.local_steps,
    )
    rows, round_, done = [], 0, config.request_round or config.rounds

    def record(state, phase, last):
        if state.rounds_done % config.evaluate_every and state.rounds_done != last:
            return
        loss, accuracy = federated.evaluate(task, state.models[state.rounds_done], *test)
        cost = state.ledger.recomputed
        rows.append(
            {
                "phase": phase,
                "round": round_,
                "model_round": state.rounds_done,
                "requests": len(state.ledger.entries),
                "forgotten": len(state.history.forgotten),
                "accuracy": accuracy,
                "loss": loss,
                "unlearning_rounds": cost.rounds,
                "unlearning_steps": cost.steps,
                "unlearning_seconds": state.ledger.seconds,
                "unlearning_bytes": cost.bytes_down + cost.bytes_up,
                "scratch_steps": state.ledger.scratch.steps,
            }
        )

    def after_round(phase, last):
        def on_round(state):
            nonlocal round_
            round_ += 1
            record(state, phase, last)

        return on_round

    fisher = baselines.Fisher(
        config.fisher_rate, config.fisher_momentum, config.fisher_decay, config.fisher_damping
    )
    state = unlearning.learn(
        task,
        clients,
        history,
        config.rate,
        start=start,
        method=config.method,
        fisher=fisher,
        rounds=done,
        every=config.checkpoint_every,
        on_round=after_round("learning", done),
    )
    sets = [[request] for request in requests] if config.streaming else [requests]
    for i, asked in enumerate(sets):
        state = unlearning.request(state, asked, rng, config.rule)
        record(state, "recovery", state.rounds_done)
        until = (
            done
            if not config.interval or i == len(sets) - 1
            else min(done, state.rounds_done + config.interval)
        )
        if until > state.rounds_done:
            state = unlearning.resume(
                task, clients, state, until=until, on_round=after_round("recovery", until)
            )
    frame = pd.DataFrame(rows)
    frame.attrs["data"] = {
        "name": federation.name,
        "digest": federation.digest,
        "size": int(federation.sizes.sum()),
        "note": federation.note,
        "test_size": len(chosen),
    }
    return frame
