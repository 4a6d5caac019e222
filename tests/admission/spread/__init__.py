"""Admission of WorkloadSpreads, and of the pods that they divide."""
