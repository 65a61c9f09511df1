"""Runs, figures and verdicts.

`sweep` computes many runs, each once: `attempts` is what its workers do, `store` keeps the results
with a record of their `origin`, and `shelf` says what a folder of them holds. `plans` say which
runs a notebook needs. `claims` declares what a paper claims, `rules` and `intervals` decide it,
`figures` draws with a passport, `tables` sets ours beside the paper's and records verdicts,
`widgets` holds what the explorers share."""
