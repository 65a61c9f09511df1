"""Streaming federated learning with cache update rules (the SFL paper).

Start with `caches` (FIFO, SRSR, DRSR and the rest, Section IV-B) and `streams` (the label streams
they follow). `discrepancy` holds what a cache's label shares are expected to be, `bounds` the
propositions and Theorem 1. `training` runs a federation with one rule; `config` lists its settings,
`clients` holds streams and caches, `learner` the global model. `cache_paths` follows the caches
without training, `toy_problem` measures Theorem 1's quantities on a small convex problem.
`pictures` and `explorers` draw."""
