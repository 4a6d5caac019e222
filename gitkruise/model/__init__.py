"""Ring 1: frozen values, facts in and actions out."""
