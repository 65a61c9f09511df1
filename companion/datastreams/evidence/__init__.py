"""From runs to the evidence that the claims of federated learning for data streams ask for.

The claims are in `companion.claims`, the runs in `companion.datastreams.plans`.
"""
