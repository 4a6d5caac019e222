"""The webhook server: reviews, certificates, registration."""
