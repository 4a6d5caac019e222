"""Tests of gitkruise.admission.pods."""
