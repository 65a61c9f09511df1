"""OSAFL in the notebooks: what it claims, which runs judge it, and their pictures."""
