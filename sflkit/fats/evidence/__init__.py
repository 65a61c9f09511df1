"""From runs to the evidence that FATS's claims ask for, a module per notebook.

The claims are in `sflkit.fats.claims`, the runs in `sflkit.fats.plans`.
"""
