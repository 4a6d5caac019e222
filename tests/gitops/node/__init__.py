"""Requests to node agents from the command line."""
