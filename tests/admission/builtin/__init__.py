"""Tests of gitkruise.admission.builtin."""
