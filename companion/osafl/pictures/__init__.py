"""What the OSAFL notebooks draw, a module per topic."""
