"""What the SFL notebooks draw, a module per topic; `shared` holds what several of them draw."""
