"""Explorers for notebooks: sliders beside a small figure that is computed anew after every move.

ipywidgets and matplotlib load when an explorer is called. A live widget has no state in a saved file, so every notebook shows a
static figure of the same thing as well.
"""

from __future__ import annotations

_SLIDER = {"continuous_update": False, "style": {"description_width": "initial"}}


def cache_explorer():
    """Return sliders for rule, B, B_s, theta, temperature and classes per client, over discrepancy and composition of a cache.

    Left: the discrepancy of four clients' caches, the chosen rule and FIFO on the same stream; right: what the cache of
    the first client holds, label by label, with the long-term shares dashed.
    """
    import ipywidgets
    import matplotlib.pyplot as plt
    import numpy as np

    from sflkit import report
    from sflkit.runs import sfl

    n_classes, rounds = 6, 60

    def follow(config):
        clients = sfl.Clients(config, np.arange(n_classes).repeat(config.capacity), n_classes)
        shares = []
        for t in range(1, rounds + 1):
            clients.arrive(t)
            counts = clients.cached_counts()
            shares.append(counts / counts.sum(axis=1, keepdims=True))
        return clients.stream.long_term, np.stack(shares)

    def draw(rule, capacity, batch_size, theta, temperature, classes_per_client, seed):
        settings = {"seed": seed, "n_clients": 4, "n_classes": n_classes, "classes_per_client": classes_per_client,
                    "temperature": temperature, "capacity": capacity, "batch_size": batch_size, "theta": theta,
                    "rounds": rounds, "train": False}
        _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.0))
        time = np.arange(1, rounds + 1)
        for name in dict.fromkeys(("fifo", rule)):
            long_term, shares = follow(sfl.SFLConfig(rule=name, **settings))
            left.plot(time, ((shares - long_term) ** 2).sum(axis=(1, 2)), label=report.RULE_LABEL[name],
                      **report.RULE_STYLE[name] | {"marker": "None"})
        held = np.flatnonzero(long_term[0])
        right.stackplot(time, shares[:, 0, held].T, labels=[f"class {r}" for r in held])
        for edge in np.cumsum(long_term[0, held])[:-1]:
            right.axhline(edge, color="black", linestyle="--", linewidth=1)
        left.set(xlabel="round t", ylabel="discrepancy", ylim=(0, None))
        right.set(xlabel="round t", ylabel="share of the cache", ylim=(0, 1), xlim=(1, rounds),
                  title=f"one client, {report.RULE_LABEL[rule]}")
        left.legend()
        right.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        plt.show()

    controls = {
        "rule": ipywidgets.Dropdown(options=["drsr", "srsr", "fifo", "lazy", "reservoir"], description="rule"),
        "capacity": ipywidgets.IntSlider(300, 20, 600, 20, description="capacity B", **_SLIDER),
        "batch_size": ipywidgets.IntSlider(150, 10, 300, 10, description="arrivals B_s", **_SLIDER),
        "theta": ipywidgets.FloatSlider(2 / 3, min=0, max=1, step=0.05, description="theta (SRSR)", **_SLIDER),
        "temperature": ipywidgets.FloatLogSlider(0.2, min=-2, max=1, step=0.1, description="temperature", **_SLIDER),
        "classes_per_client": ipywidgets.IntSlider(3, 1, n_classes, description="classes per client", **_SLIDER),
        "seed": ipywidgets.IntSlider(0, 0, 20, description="seed", **_SLIDER),
    }
    ipywidgets.dlink((controls["capacity"], "value"), (controls["batch_size"], "max"))  # no more arrivals than the cache holds
    columns = list(controls.values())
    return ipywidgets.VBox([ipywidgets.HBox([ipywidgets.VBox(columns[:4]), ipywidgets.VBox(columns[4:])]),
                            ipywidgets.interactive_output(draw, controls)])


def discrepancy_explorer():
    """Return sliders for Gamma, delta^2, M, theta and pi, over the bounds of Propositions 1-3 and Corollary 1."""
    import ipywidgets
    import matplotlib.pyplot as plt
    import numpy as np

    from sflkit import bounds, report

    t = np.unique(np.geomspace(1, 500, 80).astype(int))

    def draw(corr_rounds, deviation, cache_rounds, theta, share):
        delta2 = deviation ** 2
        _, ax = plt.subplots(figsize=(6.4, 3.2))
        limit = bounds.srsr_discrepancy_limit(cache_rounds, theta, corr_rounds, delta2)
        lines = {"fifo": np.full(len(t), bounds.fifo_discrepancy(cache_rounds, corr_rounds, delta2)),
                 "srsr": bounds.srsr_discrepancy(t, cache_rounds, theta, corr_rounds, delta2, share),
                 "drsr": bounds.drsr_discrepancy(t, corr_rounds, delta2)}
        for rule, bound in lines.items():
            ax.plot(t, bound, label=report.RULE_LABEL[rule], **report.RULE_STYLE[rule] | {"marker": "None"})
        ax.axhline(delta2, color="gray", linewidth=1, label="one round")
        shown = f"{limit:.2g}" if np.isfinite(limit) else "infinite (ERRATA 6)"
        ax.set(xscale="log", yscale="log", xlabel="round t", ylabel="bound on the discrepancy", title=f"SRSR's limit: {shown}")
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        plt.show()

    controls = {
        "corr_rounds": ipywidgets.FloatSlider(1.0, min=0, max=10, step=0.5, description="memory Gamma (rounds)", **_SLIDER),
        "deviation": ipywidgets.FloatSlider(0.15, min=0.01, max=0.5, step=0.01, description="deviation delta", **_SLIDER),
        "cache_rounds": ipywidgets.IntSlider(10, 1, 100, description="cache size M (rounds)", **_SLIDER),
        "theta": ipywidgets.FloatSlider(2 / 3, min=0.05, max=1, step=0.05, description="theta (SRSR)", **_SLIDER),
        "share": ipywidgets.FloatSlider(0.3, min=0.01, max=1, step=0.01, description="share pi (SRSR)", **_SLIDER),
    }
    return ipywidgets.VBox([*controls.values(), ipywidgets.interactive_output(draw, controls)])


def importance_explorer():
    """Return sliders for c2/c1, N_hist/N, M_hist and M, over the historical clients' importance and psi of the strategies.

    Left: p_hist of the minimiser over c2/c1 with the chosen point; right: psi (c0 = 0) of the four strategies there, in units of
    the larger of c1 and c2. Sizes are equal within the two groups. Source: FDS, Section 5, Figs. 1 and 2.
    """
    import ipywidgets
    import matplotlib.pyplot as plt
    import numpy as np

    from sflkit import importance

    axis = np.geomspace(1e-3, 1e2, 201)

    def draw(ratio, share, n_historical, n_clients):
        historical, n_fresh = np.arange(n_clients) < n_historical, n_clients - n_historical
        n = np.where(historical, share / n_historical, (1 - share) / n_fresh)
        c1, c2 = min(1.0, 1 / ratio), min(1.0, ratio)
        p = {name: importance.client_importance(name, n, historical) for name in ("fresh", "historical", "uniform")}
        p["ours"] = importance.minimize_psi(n, historical, c1, c2).p
        p_hist, leaves = float(p["ours"][historical].sum()), (share / n_fresh) ** 0.5
        _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.2), width_ratios=(1.3, 1))
        left.plot(axis, [importance.equal_fresh_p_hist(share, n_fresh, r) for r in axis], color="#0072B2")
        left.plot(ratio, p_hist, "o", color="#D55E00", markersize=8, zorder=4, clip_on=False)
        left.axhline(share, color="gray", linestyle=":", linewidth=1)
        left.set(xscale="log", ylim=(0, 1.03), xlabel="$c_2/c_1$", ylabel=r"$p^*_\mathrm{hist}$",
                 title=f"$p^*_\\mathrm{{hist}}={p_hist:.3f}$; 1 up to $c_2/c_1={leaves:.3g}$")
        values = [importance.psi(p[name], n, historical, c1, c2) for name in p]
        bars = right.bar([name.capitalize() for name in p], values, color=["#E69F00", "#009E73", "#56B4E9", "#0072B2"])
        right.bar_label(bars, fmt="%.3g")
        right.set(ylabel=r"$\psi/\max(c_1,c_2)$", ylim=(0, 1.15 * max(values)))
        plt.show()

    controls = {
        "ratio": ipywidgets.FloatLogSlider(0.15, min=-3, max=2, step=0.05, description="c2/c1", **_SLIDER),
        "share": ipywidgets.FloatSlider(0.2, min=0.01, max=0.99, step=0.01, description="N_hist/N", **_SLIDER),
        "n_historical": ipywidgets.IntSlider(25, 1, 49, description="historical clients M_hist", **_SLIDER),
        "n_clients": ipywidgets.IntSlider(50, 2, 200, description="clients M", **_SLIDER),
    }
    # at least one fresh client; the maximum follows M, and a value above it is cut down by the slider itself
    ipywidgets.dlink((controls["n_clients"], "value"), (controls["n_historical"], "max"), lambda m: m - 1)
    return ipywidgets.VBox([*controls.values(), ipywidgets.interactive_output(draw, controls)])


def unlearning_explorer():
    """Return sliders for rho_S, rho_C and the requests w, over what forgetting costs on average and Theorem 7's bounds.

    Left: mean unlearning time in trainings over w, served one after another and at once; right: mean number of
    re-computations of w requests in a row, beside 4 w rho. Limits of many clients, many rounds and small mini-batches, in which
    a use comes at a uniform time and a request hits with probability 1 - exp(-rho). Source: FATS, Theorem 7, Fig. 3.
    """
    import ipywidgets
    import matplotlib.pyplot as plt
    import numpy as np

    from sflkit import bounds

    steps = 7000  # a training in look-ups, FEMNIST's T; so many that the bound's second part, w look-ups, hardly shows
    axis = np.arange(1, 21)

    def mean_time(rho):
        return 1 + np.expm1(-rho) / rho

    def draw(rho_s, rho_c, requests):
        _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4), width_ratios=(1.3, 1))
        for i, (level, rho, color) in enumerate((("samples", rho_s, "#0072B2"), ("clients", rho_c, "#D55E00"))):
            found = [bounds.fats_theorem7(rho=rho, requests=int(w), training_time=steps) for w in axis]
            lines = {"one by one": (axis * mean_time(rho), "-"), "at once": (mean_time(axis * rho), "--"),
                     "order of Theorem 7": ([b.time / steps for b in found], ":")}
            for name, (values, line) in lines.items():
                left.plot(axis, values, color=color, linestyle=line, label=f"{level}, {name}")
                left.plot(requests, values[requests - 1], "o", color=color, markersize=6, clip_on=False)
            bars = right.bar([3 * i, 3 * i + 1], [-requests * np.expm1(-rho), found[requests - 1].recomputations],
                             color=[color, "lightgray"], edgecolor=color)
            right.bar_label(bars, fmt="%.3g")
        left.axhline(1, color="black", linewidth=1, label="training again, once (FRS)")
        left.set(xlabel="requests w", ylabel="unlearning time / training", ylim=(0, None), xticks=[1, 5, 10, 15, 20])
        left.legend(fontsize=7, loc="upper left")
        right.set_xticks([0, 1, 3, 4], ["samples", r"$4w\rho_S$", "clients", r"$4w\rho_C$"])
        right.set(ylabel="re-computations", title=f"{requests} in a row")
        plt.show()

    controls = {
        "rho_s": ipywidgets.FloatSlider(0.43, min=0.01, max=1, step=0.01, description="rho_S (samples)", **_SLIDER),
        "rho_c": ipywidgets.FloatSlider(0.49, min=0.01, max=1, step=0.01, description="rho_C (clients)", **_SLIDER),
        "requests": ipywidgets.IntSlider(10, 1, 20, description="requests w", **_SLIDER),
    }
    return ipywidgets.VBox([*controls.values(), ipywidgets.interactive_output(draw, controls)])


def resource_explorer():
    """Return sliders for distance, payload, energy budget and start, over what one client can do in a round of OSAFL.

    Power and local steps that fit, coloured by the lowest CPU frequency that meets the deadline (Lemma 2), with the exact
    answer and the alternation's, which keeps the power it starts from. A client of middling hardware, no shadowing.
    Source: OSAFL, problem (5), ERRATA 34 and 35; `sflkit.wireless`.
    """
    import ipywidgets
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.colors import LogNorm

    from sflkit import alternation, channels, wireless

    cycles, max_cpu, max_tx = 160 * 101376 * 32.5, 1.4e9, 10**-0.5  # 32.5 cycles a bit, 25 dBm
    power = np.geomspace(1e-4, 1, 400) * max_tx
    steps = np.linspace(0.02, 5, 250)[:, None]
    levels = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1400]

    def draw(distance, million, budget, start):
        link = wireless.Link(33e6 * million)
        client = wireless.Devices(channels.snr_per_watt(distance), cycles, budget, max_cpu, max_tx)
        many = wireless.Devices(np.full(len(power), client.snr_per_watt), cycles, budget, max_cpu, max_tx)
        with np.errstate(divide="ignore"):
            cpu = alternation.lemma2(many, link, steps, power)
        spent = wireless.costs(many, link, steps, np.maximum(cpu, 0), power)
        fits = (cpu > 0) & (cpu <= max_cpu) & (spent.compute_j + spent.uplink_j <= budget)
        exact = wireless.allocate(client, link)
        found = wireless.allocate(client, link, "alternating", start=alternation.Start(1.0, start))
        _, ax = plt.subplots(figsize=(6.8, 3.6))
        if fits.any():
            shown = ax.contourf(power, steps[:, 0], np.where(fits, cpu / 1e6, np.nan), levels=levels, norm=LogNorm(1, 1400),
                                cmap="cividis", extend="min")
            plt.colorbar(shown, ax=ax, label="CPU frequency f (MHz)", format="%g", ticks=levels)
        marks = (("exact", exact, "*", "#D55E00", 17), ("alternation", found, "o", "#56B4E9", 9))
        for name, answer, marker, color, size in marks:
            place, label = (np.nan, np.nan), f"{name}: straggler"
            if answer.feasible[0]:
                place, label = (answer.tx_watt[0], answer.local_steps[0]), f"{name}: {answer.local_steps[0]} steps"
                label += f", {answer.energy_j[0]:.3g} J"
            ax.plot(*place, marker, color=color, markersize=size, markeredgecolor="white", linestyle="none", label=label,
                    clip_on=False, zorder=4)
        ax.axvline(start * max_tx, color="#56B4E9", linestyle=":", linewidth=1.5)
        ax.set(xscale="log", xlim=(power[0], power[-1]), ylim=(0, 5.15), xlabel="transmit power p (W)",
               ylabel=r"local steps $\kappa$")
        ax.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.17), ncol=2)
        plt.show()

    controls = {
        "distance": ipywidgets.IntSlider(450, 10, 1000, 10, description="distance (m)", **_SLIDER),
        "million": ipywidgets.FloatLogSlider(1.0, min=-1, max=1, step=0.05, description="million parameters", **_SLIDER),
        "budget": ipywidgets.FloatSlider(1.8, min=0.05, max=5, step=0.05, description="energy budget (J)", **_SLIDER),
        "start": ipywidgets.FloatLogSlider(0.3, min=-3, max=0, step=0.05, description="start p / p_max", **_SLIDER),
    }
    return ipywidgets.VBox([*controls.values(), ipywidgets.interactive_output(draw, controls)])
