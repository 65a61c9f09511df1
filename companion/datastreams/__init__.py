"""Where FDS is wrong or silent, as switches between readings."""
