"""Ring 0: the rules of Kubernetes and of Go's encoders, pure."""
