"""From runs to the evidence that SFL's claims ask for, a module per topic.

The claims are in `companion.claims`, the runs in `companion.sfl.plans`.
"""
