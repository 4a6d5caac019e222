"""Advanced StatefulSets: one planning round, and rollouts in a model cluster."""
