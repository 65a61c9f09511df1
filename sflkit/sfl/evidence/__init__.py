"""From runs to the evidence that SFL's claims ask for, a module per topic.

The claims are in `sflkit.sfl.claims`, the runs in `sflkit.sfl.plans`.
"""
