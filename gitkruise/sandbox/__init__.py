"""Ring 5: the model cluster over HTTP."""
