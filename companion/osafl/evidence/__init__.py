"""From runs to the evidence that OSAFL's claims ask for, a module per topic.

The claims are in `companion.claims`, the runs in `companion.osafl.plans`.
"""
