"""Alert rules and the dashboard of deploy/monitoring."""
