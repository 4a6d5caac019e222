"""Tests of the node agent: against a container runtime in the same process, over a real socket."""
