"""The dashboard: access, frames, the server, and its pages in a real browser."""
