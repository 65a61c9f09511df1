"""Experiments of the four papers, one module a paper: a frozen config dataclass and `run(config) -> pandas.DataFrame`."""
