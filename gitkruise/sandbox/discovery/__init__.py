"""Documents by which clients find out what is served: discovery, OpenAPI v2 and v3.

They are built from the catalogue of kinds and from applied CRDs, and cached until the catalogue
changes. `descriptions` adds the texts of `kubectl explain`. Objects and their schemas' validation
are elsewhere (`world`, `wire.schema`). Called by `sandbox.handlers.app`.
"""
