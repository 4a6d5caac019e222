"""WorkloadSpreads: status, deletion costs, older pods, rescheduling."""
