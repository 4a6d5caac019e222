"""Tests of gitkruise.admission.rules."""
