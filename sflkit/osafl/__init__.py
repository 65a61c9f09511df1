"""Online-score-aided federated learning in wireless networks (the OSAFL paper).

Start with `scores` (how well a client's update agrees with the mean) and `rules` (Algorithm 2 and
the modified baselines). `devices` says what a round costs a client, `allocation` and `alternation`
how steps, CPU frequency and power are chosen, `channels` draws the radio links, `video` the content
requests and `stores` the clients' storage. `training` runs a federation; `config` lists its
settings, `clients` builds its data, `centralised` is the comparison of Fig. 1. `networks` names the
paper's four networks and their payloads, `bounds` holds Theorem 1."""

from sflkit.exports import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "scores": "osafl_scores",
        "rules": "OSAFL",
        "devices": "Allocation Devices Link",
        "allocation": "allocate",
        "channels": "draw_devices",
        "training": "run",
        "config": "OSAFLConfig",
        "alternation": "",
        "bounds": "",
        "centralised": "",
        "clients": "",
        "networks": "",
        "stores": "",
        "video": "",
    },
)
