"""Tests of gitkruise.sandbox.discovery."""
