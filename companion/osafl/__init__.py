"""Where OSAFL is wrong or silent, as switches between readings."""
