"""Ring 5: admission and conversion over HTTPS, for a cluster that has no OpenKruise."""
