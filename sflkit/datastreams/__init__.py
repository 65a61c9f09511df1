"""Federated learning for data streams (the FDS paper): how much should old data count against new
data?

Start with `importance` (what the weights of samples mean, Sections 3 and 4) and `psi` (the bound
that is minimised, Section 5). `strategies` turns a strategy's name into weights of clients.
`bounds` holds the theory.

`training` runs Algorithm 1 with several strategies at once: `config` lists its settings, `arrivals`
says who holds which samples when, `arms` trains the models, and `constants` measures what the bound
needs to know.
"""

from sflkit.exports import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "psi": "estimate_c_ratio minimize_psi",
        "importance": "effective_samples",
        "strategies": "client_importance",
        "training": "run",
        "config": "DataStreamsConfig",
        "arms": "",
        "arrivals": "",
        "bounds": "",
        "constants": "",
    },
)
