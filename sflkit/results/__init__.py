"""Runs, figures and verdicts.

`sweep` computes many runs, each once, and `store` keeps them. `intervals` and `verdicts` say what
they show, `figures` draws them with a passport, `tables` sets ours beside the paper's, `widgets`
holds what the explorers share."""
