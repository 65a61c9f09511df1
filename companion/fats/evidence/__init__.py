"""From runs to the evidence that FATS's claims ask for, a module per notebook.

The claims are in `companion.claims`, the runs in `companion.fats.plans`.
"""
