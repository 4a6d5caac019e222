"""Ring 3: the model cluster, deterministic and without sockets."""
