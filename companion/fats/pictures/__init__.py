"""What the FATS notebooks draw, a module per notebook."""
