"""What a real kube-apiserver answers to a long script of requests, and the replay of it."""
