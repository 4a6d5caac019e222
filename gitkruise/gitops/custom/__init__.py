"""GitSource, Unit, Sink and Receiver as objects of the cluster: read, answered in their status."""
