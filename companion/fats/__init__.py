"""Where FATS is wrong or silent, as switches between readings."""
