"""What happened, and what may happen next."""
