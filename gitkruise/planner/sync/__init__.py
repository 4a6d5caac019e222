"""What a commit changes in a cluster, in which order, and what it may delete."""
