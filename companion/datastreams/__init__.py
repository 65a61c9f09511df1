"""Federated learning for data streams in the notebooks: claims, runs, evidence, pictures."""
