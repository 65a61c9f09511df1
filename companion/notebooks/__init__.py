"""A module a notebook: its list of runs, what its claims take of them, and its pictures.

`n12` belongs to notebook 12. What several notebooks of a paper share stands in `sfl_shared` and its
siblings, and a problem that is long by itself in a module of its own, such as `label_only`. A plan
is a generator of stages (`companion.plans`), and its arguments are its notebook's parameters.
"""
