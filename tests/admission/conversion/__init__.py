"""Tests of gitkruise.admission.conversion."""
