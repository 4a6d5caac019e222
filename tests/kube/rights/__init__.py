"""Requests of the controller, and the rights that `deploy/` gives it."""
