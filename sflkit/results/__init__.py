"""Runs: `sweep` computes many, each once; `attempts` is what its workers do.

`store` keeps the results with a record of their `origin` and `sources`, `archive` those that are
published, and `intervals` says how far a few seeds carry."""
