"""The rules of Kubernetes and of Go's encoders."""
