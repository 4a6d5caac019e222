"""Tests on a real node under a real control plane, all on loopback."""
