"""From runs to the evidence that OSAFL's claims ask for, a module per topic.

The claims are in `companion.osafl.claims`, the runs in `companion.osafl.plans`.
"""
