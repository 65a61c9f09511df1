"""From runs to the evidence that OSAFL's claims ask for, a module per topic.

The claims are in `sflkit.osafl.claims`, the runs in `sflkit.osafl.plans`.
"""
