"""Where SFL is wrong or silent, as switches between readings."""
