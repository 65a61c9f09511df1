"""Which runs the SFL notebooks need, for the notebooks and for `make paper`.

Every plan is a generator of stages, see `companion.plans`; its arguments are parameters of its
notebook.
"""
