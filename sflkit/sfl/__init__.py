"""Streaming federated learning with cache update rules (the SFL paper).

Start with `caches` (FIFO, SRSR, DRSR and the rest, Section IV-B) and `streams` (the label streams
they follow). `discrepancy` holds what a cache's label shares are expected to be, `bounds` the
propositions and Theorem 1. `training` runs a federation with one rule; `config` lists its settings,
`clients` holds streams and caches, `learner` the global model, and `protocol` says what a run asks
of a cache or stream of your own. `cache_paths` follows the caches without training."""

from sflkit.exports import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "caches": "Cache DRSR FIFO Full Lazy Reservoir SRSR SharesRule",
        "streams": "GivenStream LabelStream kl_markov_stream",
        "discrepancy": "exact_discrepancy",
        "training": "run",
        "config": "SFLConfig",
        "bounds": "",
        "cache_paths": "",
        "clients": "",
        "learner": "",
        "protocol": "",
        "sampling": "",
    },
)
