"""What the notebooks of federated learning for data streams draw, a module per topic."""
