"""Tests of gitkruise.gitops.telemetry."""
