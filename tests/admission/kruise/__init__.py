"""Tests of gitkruise.admission.kruise."""
