"""Which runs the FATS notebooks need, a module per notebook, also for `make paper`.

Every plan is a generator of stages, see `companion.plans`; its arguments are parameters of its
notebook.
"""
